package main

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// The frozen format: keys and values of registrations and leases, big-endian. It has no code in common with the library.

const (
	formatVersion    = 0
	kindRegistration = 0
	kindLease        = 1
	longestName      = 249
)

// token is a pair that InitProducerId answered.
type token struct {
	producerID int64
	epoch      int16
}

func (t token) String() string { return fmt.Sprintf("%d:%d", t.producerID, t.epoch) }

type recordKey struct {
	kind   int16
	role   string
	member string
}

type lease struct {
	member    string
	token     token
	grantedAt int64
	deadline  int64
}

func appendText(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(text))), text...)
}

func appendInt64(to []byte, value int64) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(value))
}

func (k recordKey) encode() []byte {
	bytes := binary.BigEndian.AppendUint16(nil, formatVersion)
	bytes = binary.BigEndian.AppendUint16(bytes, uint16(k.kind))
	return appendText(appendText(bytes, k.role), k.member)
}

func encodeRegistration(member string, registeredAt int64) []byte {
	bytes := binary.BigEndian.AppendUint16(nil, formatVersion)
	return appendInt64(appendText(bytes, member), registeredAt)
}

func (l lease) encode() []byte {
	bytes := appendText(binary.BigEndian.AppendUint16(nil, formatVersion), l.member)
	bytes = appendInt64(bytes, l.token.producerID)
	bytes = binary.BigEndian.AppendUint16(bytes, uint16(l.token.epoch))
	return appendInt64(appendInt64(bytes, l.grantedAt), l.deadline)
}

func decodeKey(bytes []byte) (recordKey, error) {
	r := reader{left: bytes}
	r.version()
	kind := r.int16()
	if r.failure == nil && kind != kindRegistration && kind != kindLease {
		r.failure = fmt.Errorf("unknown kind %d", kind)
	}
	key := recordKey{kind: kind, role: r.name(false), member: r.name(kind == kindLease)}
	if r.failure == nil && kind == kindLease && key.member != "" {
		r.failure = fmt.Errorf("a lease key that names member %q", key.member)
	}
	return key, r.end("key")
}

func decodeRegistration(bytes []byte) (registeredAt int64, err error) {
	r := reader{left: bytes}
	r.version()
	r.name(false) // The key's member counts.
	registeredAt = r.int64()
	return registeredAt, r.end("registration")
}

func decodeLease(bytes []byte) (lease, error) {
	r := reader{left: bytes}
	r.version()
	decoded := lease{
		member:    r.name(false),
		token:     token{producerID: r.int64(), epoch: r.int16()},
		grantedAt: r.int64(),
		deadline:  r.int64(),
	}
	if r.failure == nil && (decoded.token.producerID < 0 || decoded.token.epoch < 0) {
		r.failure = fmt.Errorf("negative token %s", decoded.token)
	}
	return decoded, r.end("lease")
}

// reader takes fields from the front and keeps the first failure.
type reader struct {
	left    []byte
	failure error
}

func (r *reader) take(count int) []byte {
	if r.failure == nil && len(r.left) < count {
		r.failure = fmt.Errorf("cut off: %d bytes wanted, %d left", count, len(r.left))
	}
	if r.failure != nil {
		return make([]byte, count)
	}
	taken := r.left[:count]
	r.left = r.left[count:]
	return taken
}

func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }

func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) version() {
	if version := r.int16(); r.failure == nil && version != formatVersion {
		r.failure = fmt.Errorf("unknown version %d", version)
	}
}

func (r *reader) name(mayBeEmpty bool) string {
	length := int(r.int16())
	if r.failure == nil && (length < 0 || length > longestName || length == 0 && !mayBeEmpty) {
		r.failure = fmt.Errorf("a name of %d bytes", length)
	}
	if r.failure != nil {
		return ""
	}
	bytes := r.take(length)
	if r.failure == nil && !utf8.Valid(bytes) {
		r.failure = fmt.Errorf("a name that is not UTF-8: %x", bytes)
	}
	return string(bytes)
}

func (r *reader) end(what string) error {
	if r.failure == nil && len(r.left) > 0 {
		r.failure = fmt.Errorf("%d bytes too many", len(r.left))
	}
	if r.failure != nil {
		return fmt.Errorf("%s: %w", what, r.failure)
	}
	return nil
}
