package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
)

// What the member says and is told: JSON lines, 64-bit numbers as text.

type fields map[string]any

var output sync.Mutex

func say(event string, with fields) {
	line := fields{"event": event}
	for name, value := range with {
		line[name] = value
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(mustJSON(line), '\n'))
}

func mustJSON(value any) []byte {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return bytes
}

func text(value int64) string { return strconv.FormatInt(value, 10) }

// command is one line of standard input; it is answered once.
type command struct {
	ID json.Number `json:"id"`
	Do string      `json:"do"`
}

func (c command) answer(value any) { say("answer", fields{"id": c.ID, "value": value}) }

func (c command) fail(name, message string) {
	say("answer", fields{"id": c.ID, "error": fields{"name": name, "message": message}})
}

// listen passes on each command, and closes the channel when the input ends.
func listen(input io.Reader, commands chan<- command) error {
	defer close(commands)
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		var told command
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			return fmt.Errorf("no command: %s: %w", lines.Text(), err)
		}
		commands <- told
	}
	return lines.Err()
}
