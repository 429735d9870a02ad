package main

import (
	"fmt"
	"sort"
)

// The fold and the decisions that all ports share, pure: no clock and no I/O. They are the rules of the other ports, not of this library.

type registration struct {
	member       string
	offset       int64
	registeredAt int64
}

// roleState is one role folded from committed records in log order.
type roleState struct {
	role          string
	registrations map[string]registration
	lease         *lease
	// The smallest offset at which the lease's token was seen since another token or a tombstone.
	term int64
}

// apply folds one record. A key that does not decode, or a value of this role, is an error: such a port stops there.
func (s *roleState) apply(offset int64, keyBytes, value []byte) error {
	key, err := decodeKey(keyBytes)
	if err != nil {
		return fmt.Errorf("offset %d: %w", offset, err)
	}
	switch {
	case key.role != s.role:
	case key.kind == kindRegistration && len(value) == 0:
		delete(s.registrations, key.member)
	case key.kind == kindRegistration:
		registeredAt, err := decodeRegistration(value)
		if err != nil {
			return fmt.Errorf("offset %d: %w", offset, err)
		}
		s.registrations[key.member] = registration{key.member, offset, registeredAt}
	case len(value) == 0:
		s.lease = nil
	default:
		decoded, err := decodeLease(value)
		if err != nil {
			return fmt.Errorf("offset %d: %w", offset, err)
		}
		if s.lease == nil || s.lease.token != decoded.token {
			s.term = offset
		}
		s.lease = &decoded
	}
	return nil
}

// roster is the live registrations in the order of their offsets.
func (s *roleState) roster() []registration {
	roster := make([]registration, 0, len(s.registrations))
	for _, registered := range s.registrations {
		roster = append(roster, registered)
	}
	sort.Slice(roster, func(i, j int) bool { return roster[i].offset < roster[j].offset })
	return roster
}

// rank is a member's index in the roster without the holder.
func (s *roleState) rank(member string) int64 {
	rank := int64(0)
	for _, registered := range s.roster() {
		if registered.member == member {
			break
		}
		if s.lease == nil || registered.member != s.lease.member {
			rank++
		}
	}
	return rank
}

type action int

const (
	register action = iota
	challenge
	wait
)

// decide says what a member that leads no term does at `now`, and until when it may wait. All times are wall clock, in ms.
func (s *roleState) decide(self string, now, staggerMs int64) (action, int64) {
	registered, isRegistered := s.registrations[self]
	if !isRegistered {
		return register, now
	}
	if s.lease != nil && s.lease.member == self && now < s.lease.deadline {
		return challenge, now // A live lease in my name that I do not hold: mint again at once.
	}
	slot := registered.registeredAt
	switch {
	case s.lease == nil:
		slot += s.rank(self) * staggerMs
	case s.lease.member == self:
		slot = s.lease.deadline
	default:
		slot = s.lease.deadline + s.rank(self)*staggerMs
	}
	if now >= slot {
		return challenge, slot
	}
	return wait, slot
}
