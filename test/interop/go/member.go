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

// retryAfter is the pause before what failed on the network is tried again.
const retryAfter = 100 * time.Millisecond

// fatal marks what the member ends with: no error of the network.
type fatal struct{ error }

// member contends for the role and leads it. One goroutine, `run`, does all of its writing, so that transactions follow one another.
type member struct {
	given    settings
	plain    *kgo.Client // Reads, and writes registrations.
	follower *follower
	// Commands other than `status`, which is answered at once.
	commands chan command

	contending bool
	term       *term
	renewAt    time.Time
	writeAt    time.Time
}

func newMember(given settings) (*member, error) {
	fromStart := kgo.NewOffset().At(0)
	plain, err := kgo.NewClient(append(given.options(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: {given.Partition: fromStart}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Seen only to know how far was read: a partition may end in a marker.
		kgo.KeepControlRecords(),
	)...)
	if err != nil {
		return nil, err
	}
	return &member{
		given:      given,
		plain:      plain,
		follower:   newFollower(plain, given),
		commands:   make(chan command, 16),
		contending: true,
	}, nil
}

// run does what the rules and the commands say until it is told to stop.
func (m *member) run(ctx context.Context) error {
	for {
		wake, changed, err := m.step(ctx)
		if _, isFatal := errors.AsType[fatal](err); isFatal {
			return err
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "tried again: %v\n", err)
			wake, changed = time.Now().Add(retryAfter), nil
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-timer.C:
		case <-changed:
		case told, open := <-m.commands:
			if !open || m.obey(ctx, told) {
				return nil
			}
		}
		timer.Stop()
	}
}

// step does at most one thing, and says until when, or until what was read, there is nothing else to do.
func (m *member) step(ctx context.Context) (wake time.Time, changed <-chan struct{}, err error) {
	if m.term != nil {
		return m.lead(ctx)
	}
	if !m.contending {
		const restful = time.Hour
		return time.Now().Add(restful), nil, nil
	}
	if next, at, seen := m.decide(); next == wait {
		return time.UnixMilli(at), seen, nil
	}
	// It acts on nothing but the whole log.
	if err := m.catchUp(ctx); err != nil {
		return wake, nil, err
	}
	next, at, seen := m.decide()
	switch next {
	case register:
		err = m.register(ctx)
	case challenge:
		err = m.challenge(ctx)
	case wait:
		return time.UnixMilli(at), seen, nil
	}
	return time.Now(), nil, err
}

func (m *member) decide() (next action, at int64, seen <-chan struct{}) {
	seen = m.follower.look(func(state *roleState) {
		next, at = state.decide(m.given.MemberID, time.Now().UnixMilli(), m.given.StaggerMs)
	})
	return next, at, seen
}

func (m *member) catchUp(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, m.given.lease())
	defer cancel()
	return m.follower.catchUp(bounded)
}

// lead renews when it is time, and writes when it is time and nothing else is.
func (m *member) lead(ctx context.Context) (wake time.Time, changed <-chan struct{}, err error) {
	isRegistered := false
	changed = m.follower.look(func(state *roleState) {
		_, isRegistered = state.registrations[m.given.MemberID]
	})
	now := time.Now()
	switch {
	case !now.Before(m.renewAt):
		m.renewAt = now.Add(m.given.renew())
		if err := m.term.renew(ctx); err != nil {
			m.lose(err)
		}
		return now, nil, nil
	case !isRegistered:
		return now, nil, m.register(ctx)
	case m.given.Commands == "":
		return m.renewAt, changed, nil
	case !now.Before(m.writeAt):
		m.writeAt = now.Add(m.given.writeEvery())
		if err := m.term.write(ctx); err != nil {
			m.lose(err)
		} else {
			say("wrote", fields{"n": m.term.written, "token": m.term.token.String()})
		}
		return now, nil, nil
	case m.writeAt.Before(m.renewAt):
		return m.writeAt, changed, nil
	default:
		return m.renewAt, changed, nil
	}
}

// register writes a plain registration and returns when it was read.
func (m *member) register(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, m.given.lease())
	defer cancel()
	record := &kgo.Record{
		Topic:     m.given.Topic,
		Partition: m.given.Partition,
		Key:       recordKey{kind: kindRegistration, role: m.given.Role, member: m.given.MemberID}.encode(),
		Value:     encodeRegistration(m.given.MemberID, time.Now().UnixMilli()),
	}
	if err := m.plain.ProduceSync(bounded, record).FirstErr(); err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	say("registered", fields{"offset": text(record.Offset)})
	return m.follower.passed(bounded, record.Offset+1)
}

// challenge mints, writes the first lease and leads; whoever is fenced on the way has lost the race, and nothing else.
func (m *member) challenge(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, m.given.lease())
	defer cancel()
	minted, err := mint(bounded, m.given)
	if err != nil {
		return classified(err)
	}
	if err := minted.renew(ctx); err != nil {
		minted.producer.Close()
		return fmt.Errorf("first lease under %s: %w", minted.token, err)
	}
	now := time.Now()
	m.term, m.renewAt, m.writeAt = minted, now.Add(m.given.renew()), now
	say("leading", fields{"token": minted.token.String(), "at": now.UnixMilli()})
	return nil
}

// classified makes fatal what no second try can mend: a definite refusal of the broker.
func classified(err error) error {
	refusal, isKafka := errors.AsType[*kerr.Error](err)
	if !isKafka || refusal.Retriable || isFenced(err) || errors.Is(err, kerr.ConcurrentTransactions) {
		return err
	}
	return fatal{err}
}

func (m *member) lose(err error) {
	fmt.Fprintf(os.Stderr, "lost %s: %v\n", m.term.token, err)
	say("lost", fields{"token": m.term.token.String(), "reason": nameOf(err)})
	m.end()
}

func (m *member) end() {
	m.term.producer.Close()
	m.term = nil
}

// obey answers one command, and says whether it was the last.
func (m *member) obey(ctx context.Context, told command) (stop bool) {
	switch told.Do {
	case "resign":
		m.resign(ctx, told)
	case "contend":
		m.contending = true
		told.answer("contending")
	case "stop":
		told.answer("stopping")
		return true
	default:
		told.fail("UnknownCommand", fmt.Sprintf("no such command: %q", told.Do))
	}
	return false
}

func (m *member) resign(ctx context.Context, told command) {
	if m.term == nil {
		told.fail("NotLeading", "this member leads no term")
		return
	}
	m.contending = false
	if err := m.term.resign(ctx); err != nil {
		told.fail(nameOf(err), err.Error())
		m.lose(err)
		return
	}
	say("resigned", fields{"token": m.term.token.String(), "at": time.Now().UnixMilli()})
	told.answer("resigned")
	m.end()
}

// status is the member's own fold, as it is now.
func (m *member) status() fields {
	status := fields{"holder": nil, "token": nil, "term": nil, "deadline": nil}
	m.follower.look(func(state *roleState) {
		if lease := state.lease; lease != nil {
			status["holder"], status["token"] = lease.member, lease.token.String()
			status["term"], status["deadline"] = text(state.term), text(lease.deadline)
		}
		roster := []fields{}
		for _, registered := range state.roster() {
			entry := fields{"memberId": registered.member, "offset": text(registered.offset), "rank": nil}
			if state.lease == nil || registered.member != state.lease.member {
				entry["rank"] = state.rank(registered.member)
			}
			roster = append(roster, entry)
		}
		status["roster"] = roster
	})
	return status
}
