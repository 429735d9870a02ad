package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// follower reads the role's partition from its beginning, read_committed, for as long as the member lives.
type follower struct {
	client    *kgo.Client
	topic     string
	partition int32

	mutex    sync.Mutex
	state    roleState
	position int64 // Behind the last record or marker read.
	changed  chan struct{}
}

func newFollower(client *kgo.Client, given settings) *follower {
	return &follower{
		client:    client,
		topic:     given.Topic,
		partition: given.Partition,
		state:     roleState{role: given.Role, registrations: map[string]registration{}},
		changed:   make(chan struct{}),
	}
}

// run follows for ever. It returns only with what no port goes on after.
func (f *follower) run(ctx context.Context) error {
	for {
		fetches := f.client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			fmt.Fprintf(os.Stderr, "reading %s-%d: %v\n", topic, partition, err)
		})
		if err := f.fold(fetches.Records()); err != nil {
			return err
		}
	}
}

func (f *follower) fold(records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, record := range records {
		if !record.Attrs.IsControl() {
			if err := f.state.apply(record.Offset, record.Key, record.Value); err != nil {
				return err
			}
		}
		f.position = record.Offset + 1
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

// look calls `by` with the state as it is now, and answers a channel that closes when more was read.
func (f *follower) look(by func(*roleState)) <-chan struct{} {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	by(&f.state)
	return f.changed
}

// passed returns when everything below `offset` was read.
func (f *follower) passed(ctx context.Context, offset int64) error {
	for {
		f.mutex.Lock()
		position, changed := f.position, f.changed
		f.mutex.Unlock()
		if position >= offset {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp returns when everything below the last stable offset of now was read.
func (f *follower) catchUp(ctx context.Context) error {
	const latest = -1
	const readCommitted = 1
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	request.IsolationLevel = readCommitted
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = f.topic
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Partition = f.partition
	partition.Timestamp = latest
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return fmt.Errorf("ListOffsets of %s-%d answered nothing", f.topic, f.partition)
	}
	end := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(end.ErrorCode); err != nil {
		return err
	}
	return f.passed(ctx, end.Offset)
}
