// A member of the election in Go, on franz-go, that follows the rules which the other ports of the format share: it registers only where
// the roster lacks it and never deregisters, challenges by its wall clock at the deadline plus its rank times the stagger, mints once for
// a term, names the minted pair in every lease, and resigns by a tombstone alone.
//
// Its one argument is a JSON object (settings.go). It takes commands and tells what happens in JSON lines (speech.go). Errors of the
// network are written to standard error and what failed is tried again; anything else ends it with exit code 1.
//
//	format.go   the frozen bytes
//	rules.go    fold and decisions, pure
//	follower.go the partition, read to its last stable offset
//	term.go     a producer with its minted pair
//	member.go   what is done when
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := live(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "the member ends: %v\n", err)
		os.Exit(1)
	}
}

func live(ctx context.Context) error {
	given, err := parseSettings(os.Args[1:])
	if err != nil {
		return err
	}
	m, err := newMember(given)
	if err != nil {
		return err
	}
	ended := make(chan error, 3)
	heard := make(chan command)
	go func() { ended <- m.follower.run(ctx) }()
	go func() {
		if err := listen(os.Stdin, heard); err != nil {
			ended <- err
		}
	}()
	go m.route(heard)
	say("ready", nil)
	go func() { ended <- m.run(ctx) }()
	return <-ended
}

// route answers `status` at once, whatever the member waits for, and hands on the rest.
func (m *member) route(heard <-chan command) {
	defer close(m.commands)
	for told := range heard {
		if told.Do == "status" {
			told.answer(m.status())
		} else {
			m.commands <- told
		}
	}
}
