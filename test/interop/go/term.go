package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// abortTimeout bounds the tidying after a failure: the transaction's own timeout ends what it cannot.
const abortTimeout = 5 * time.Second

// term is a producer under the role's transactional id with the pair that it minted. A fenced one is dead: each term has its own. Where
// the cluster runs transaction.version 2 the coordinator raises the producer's epoch at each end of a transaction; the leases go on
// naming the minted pair.
type term struct {
	producer *kgo.Client
	given    settings
	token    token
	written  int64 // Guarded records committed in it.
}

// mint makes the producer and asks for the pair: once, and before anything else, since a franz-go client mints at its first need.
func mint(ctx context.Context, given settings) (*term, error) {
	producer, err := kgo.NewClient(append(given.options(),
		kgo.TransactionalID(given.Role),
		kgo.TransactionTimeout(given.lease()),
	)...)
	if err != nil {
		return nil, fatal{err}
	}
	producerID, epoch, err := producer.ProducerID(ctx)
	if err != nil {
		producer.Close()
		return nil, fmt.Errorf("minting: %w", err)
	}
	return &term{producer: producer, given: given, token: token{producerID, epoch}}, nil
}

// renew writes the lease, from now; the first time, it is what the term begins with.
func (t *term) renew(ctx context.Context) error {
	now := time.Now().UnixMilli()
	granted := lease{member: t.given.MemberID, token: t.token, grantedAt: now, deadline: now + t.given.LeaseMs}
	return t.transact(ctx, t.leaseRecord(granted.encode()))
}

// resign writes the lease's tombstone, and nothing else.
func (t *term) resign(ctx context.Context) error { return t.transact(ctx, t.leaseRecord(nil)) }

func (t *term) leaseRecord(value []byte) *kgo.Record {
	key := recordKey{kind: kindLease, role: t.given.Role}
	return &kgo.Record{Topic: t.given.Topic, Partition: t.given.Partition, Key: key.encode(), Value: value}
}

// write commits the next guarded record.
func (t *term) write(ctx context.Context) error {
	value := mustJSON(struct {
		Member string `json:"member"`
		Token  string `json:"token"`
		N      int64  `json:"n"`
	}{t.given.MemberID, t.token.String(), t.written + 1})
	if err := t.transact(ctx, &kgo.Record{Topic: t.given.Commands, Key: []byte(t.given.MemberID), Value: value}); err != nil {
		return err
	}
	t.written++
	return nil
}

// transact commits one record in a transaction of its own. Like the other Go port it has no deadline of its own: it asks until the
// broker answers. Any failure ends the term, so the producer is never used again.
func (t *term) transact(ctx context.Context, record *kgo.Record) error {
	if err := t.producer.BeginTransaction(); err != nil {
		return err
	}
	err := t.producer.ProduceSync(ctx, record).FirstErr()
	if err == nil {
		err = t.producer.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil && !isFenced(err) {
		t.abort(ctx)
	}
	return err
}

func (t *term) abort(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	if err := t.producer.EndTransaction(bounded, kgo.TryAbort); err != nil {
		fmt.Fprintf(os.Stderr, "aborting under %s: %v\n", t.token, err)
	}
}

// isFenced tells the broker's word that somebody minted after this producer.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

// nameOf is Kafka's name of an error, or the Go type of another.
func nameOf(err error) string {
	if kafka, ok := errors.AsType[*kerr.Error](err); ok {
		return kafka.Message
	}
	return fmt.Sprintf("%T", err)
}
