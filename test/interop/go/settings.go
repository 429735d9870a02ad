package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// settings is the program's one argument.
type settings struct {
	Bootstrap []string `json:"bootstrap"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Role      string   `json:"role"`
	MemberID  string   `json:"memberId"`
	LeaseMs   int64    `json:"leaseMs"`
	RenewMs   int64    `json:"renewMs"`
	StaggerMs int64    `json:"staggerMs"`
	// A topic to write guarded records to, in its partition 0; none by default.
	Commands     string `json:"commands"`
	WriteEveryMs int64  `json:"writeEveryMs"`
}

func parseSettings(arguments []string) (settings, error) {
	given := settings{WriteEveryMs: 100}
	if len(arguments) != 1 {
		return given, fmt.Errorf("one argument is wanted, a JSON object, not %d", len(arguments))
	}
	decoder := json.NewDecoder(strings.NewReader(arguments[0]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return given, fmt.Errorf("argument: %w", err)
	}
	named := len(given.Bootstrap) > 0 && given.Topic != "" && given.Role != "" && given.MemberID != ""
	if !named || given.LeaseMs <= 0 || given.RenewMs <= 0 || given.StaggerMs < 0 || given.WriteEveryMs <= 0 {
		return given, errors.New("argument: bootstrap, topic, role, memberId, leaseMs, renewMs and staggerMs are wanted")
	}
	return given, nil
}

func (s settings) lease() time.Duration { return time.Duration(s.LeaseMs) * time.Millisecond }

func (s settings) renew() time.Duration { return time.Duration(s.RenewMs) * time.Millisecond }

func (s settings) writeEvery() time.Duration { return time.Duration(s.WriteEveryMs) * time.Millisecond }

// options are those of every client: records go at once, to the partition they name.
func (s settings) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		// The default holds back for seconds what a moved leader makes necessary.
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
}
