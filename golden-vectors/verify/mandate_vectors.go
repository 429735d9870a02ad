// An implementation of the frozen coordination format, version 0, and of the rules that all ports share, which checks
// the golden vectors: standard library only, Go 1.19 or newer. The layout stands in ../README.md. The first part of the
// file may start a new port; only what follows "The vectors" is about checking.
//
//	go run mandate_vectors.go ../v0/vectors.tsv
//
// It prints each line as it computes it (bytes from the fields, fields from the bytes), so that a right implementation
// prints what it read. What differs is named on standard error, and the exit code is 0 only if nothing does.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The format

const (
	formatVersion = 0
	maxNameBytes  = 249
)

type keyKind int16

const (
	kindRegistration keyKind = 0
	kindLease        keyKind = 1
)

// recordKey is comparable, so that it can be the key of a map. Names are strings of well-formed UTF-8, which Go
// compares as bytes.
type recordKey struct {
	kind   keyKind
	role   string
	member string // "" for a lease
}

type registration struct {
	member       string
	registeredAt int64
}

type lease struct {
	member    string
	token     token
	grantedAt int64
	deadline  int64
}

// refusal says which part of the bytes is outside the format, at which byte it starts, and why.
type refusal struct {
	part   string
	offset int
	reason string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("refused: %s at %d: %s", r.part, r.offset, r.reason)
}

// cursor reads a record from front to back. It keeps the first refusal; what is read behind it means nothing.
type cursor struct {
	decoder string
	data    []byte
	at      int
	refused *refusal
}

func (c *cursor) refuse(field string, offset int, reason string) {
	if c.refused == nil {
		c.refused = &refusal{c.decoder + "." + field, offset, reason}
	}
}

func (c *cursor) take(field string, size int) []byte {
	if size > len(c.data)-c.at {
		c.refuse(field, c.at, "truncated")
	}
	if c.refused != nil {
		return make([]byte, size)
	}
	part := c.data[c.at : c.at+size]
	c.at += size
	return part
}

func (c *cursor) int16(field string) int16 {
	return int16(binary.BigEndian.Uint16(c.take(field, 2)))
}

func (c *cursor) int64(field string) int64 {
	return int64(binary.BigEndian.Uint64(c.take(field, 8)))
}

func (c *cursor) version() {
	if c.int16("version") != formatVersion {
		c.refuse("version", 0, "unknown-version")
	}
}

func (c *cursor) name(field string) string {
	start := c.at
	size := int(c.int16(field))
	switch {
	case size < 0:
		c.refuse(field, start, "negative-length")
	case size == 0:
		c.refuse(field, start, "empty-name")
	case size > maxNameBytes:
		c.refuse(field, start, "overlong-name")
	}
	if c.refused != nil {
		return ""
	}
	name := c.take(field, size)
	if !utf8.Valid(name) {
		c.refuse(field, start+2, "invalid-utf8")
	}
	return string(name)
}

// end is asked last: it refuses trailing bytes, and returns what was refused on the way.
func (c *cursor) end() error {
	if c.at < len(c.data) {
		c.refuse("end", c.at, "trailing-bytes")
	}
	if c.refused != nil {
		return c.refused
	}
	return nil
}

func decodeKey(data []byte) (recordKey, error) {
	c := &cursor{decoder: "key", data: data}
	c.version()
	kind := keyKind(c.int16("kind"))
	if kind != kindRegistration && kind != kindLease {
		c.refuse("kind", 2, "unknown-kind")
	}
	key := recordKey{kind: kind, role: c.name("role")}
	if kind == kindRegistration {
		key.member = c.name("member")
	} else {
		start := c.at
		size := c.int16("member")
		if size < 0 {
			c.refuse("member", start, "negative-length")
		} else if size > 0 {
			c.refuse("member", start, "lease-member")
		}
	}
	return key, c.end()
}

func decodeRegistration(data []byte) (registration, error) {
	c := &cursor{decoder: "registration", data: data}
	c.version()
	decoded := registration{member: c.name("member"), registeredAt: c.int64("registered_at")}
	return decoded, c.end()
}

// decodeLease takes any time, and a deadline before the grant.
func decodeLease(data []byte) (lease, error) {
	c := &cursor{decoder: "lease", data: data}
	c.version()
	decoded := lease{member: c.name("member")}
	start := c.at
	if decoded.token.producerID = c.int64("producer_id"); decoded.token.producerID < 0 {
		c.refuse("producer_id", start, "negative-producer-id")
	}
	start = c.at
	if decoded.token.producerEpoch = c.int16("producer_epoch"); decoded.token.producerEpoch < 0 {
		c.refuse("producer_epoch", start, "negative-producer-epoch")
	}
	decoded.grantedAt = c.int64("granted_at")
	decoded.deadline = c.int64("deadline")
	return decoded, c.end()
}

func appendInt16(data []byte, value int16) []byte {
	return binary.BigEndian.AppendUint16(data, uint16(value))
}

func appendInt64(data []byte, value int64) []byte {
	return binary.BigEndian.AppendUint64(data, uint64(value))
}

func appendString(data []byte, text string) []byte {
	return append(appendInt16(data, int16(len(text))), text...)
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("empty-name")
	case len(name) > maxNameBytes:
		return errors.New("overlong-name")
	case !utf8.ValidString(name):
		return errors.New("invalid-utf8")
	}
	return nil
}

func encodeKey(key recordKey) ([]byte, error) {
	if err := checkName(key.role); err != nil {
		return nil, err
	}
	if key.kind == kindLease {
		if key.member != "" {
			return nil, errors.New("lease-member")
		}
	} else if err := checkName(key.member); err != nil {
		return nil, err
	}
	data := appendInt16(nil, formatVersion)
	data = appendInt16(data, int16(key.kind))
	data = appendString(data, key.role)
	return appendString(data, key.member), nil
}

func encodeRegistration(value registration) ([]byte, error) {
	if err := checkName(value.member); err != nil {
		return nil, err
	}
	data := appendInt16(nil, formatVersion)
	data = appendString(data, value.member)
	return appendInt64(data, value.registeredAt), nil
}

func encodeLease(value lease) ([]byte, error) {
	if err := checkName(value.member); err != nil {
		return nil, err
	}
	if value.token.producerID < 0 || value.token.producerEpoch < 0 {
		return nil, errors.New("negative-token")
	}
	data := appendInt16(nil, formatVersion)
	data = appendString(data, value.member)
	data = appendInt64(data, value.token.producerID)
	data = appendInt16(data, value.token.producerEpoch)
	data = appendInt64(data, value.grantedAt)
	return appendInt64(data, value.deadline), nil
}

// isTombstone tells whether a record with this value deletes its key: without a value (nil), or with one of zero bytes.
func isTombstone(value []byte) bool {
	return len(value) == 0
}

// The hash

// murmur2 is Kafka's, which is signed.
func murmur2(data []byte) int32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	if len(data) > 0 {
		for i, b := range data {
			h ^= uint32(b) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return int32(h)
}

// partitionOf is the partition of both kinds of records of a role. It never depends on the record's key.
func partitionOf(role string, partitions int32) int32 {
	return (murmur2([]byte(role)) & math.MaxInt32) % partitions
}

// The token

// token is the pair minted by InitProducerId. Its order is for sorting: it does not say which of two leaders came
// later.
type token struct {
	producerID    int64
	producerEpoch int16
}

// noToken ranks below all tokens.
var noToken = token{-1, -1}

func (t token) String() string {
	return fmt.Sprintf("%d:%d", t.producerID, t.producerEpoch)
}

func (t token) compare(other token) int {
	if t.producerID != other.producerID {
		return sign(t.producerID < other.producerID)
	}
	if t.producerEpoch != other.producerEpoch {
		return sign(t.producerEpoch < other.producerEpoch)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

func parseToken(text string) (token, bool) {
	id, epoch, colon := strings.Cut(text, ":")
	producerID, idSound := parseDigits(id, math.MaxInt64)
	producerEpoch, epochSound := parseDigits(epoch, math.MaxInt16)
	return token{producerID, int16(producerEpoch)}, colon && idSound && epochSound
}

// parseDigits takes the one decimal text of each number from 0 to greatest: ASCII digits, no sign, no leading zero.
func parseDigits(text string, greatest int64) (int64, bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	sound := err == nil && number >= 0 && number <= greatest && strconv.FormatInt(number, 10) == text
	return number, sound
}

// The record headers. They are outside the frozen format: only the TypeScript library writes them, other ports may
// leave them out.

type incarnation struct {
	random       [16]byte
	birth        int64
	registeredAt int64
}

func encodeIncarnation(value incarnation) []byte {
	return appendInt64(appendInt64(value.random[:], value.birth), value.registeredAt)
}

func decodeIncarnation(data []byte) (incarnation, bool) {
	if len(data) != 32 {
		return incarnation{}, false
	}
	value := incarnation{
		birth:        int64(binary.BigEndian.Uint64(data[16:])),
		registeredAt: int64(binary.BigEndian.Uint64(data[24:])),
	}
	copy(value.random[:], data)
	return value, true
}

func (i incarnation) compare(other incarnation) int {
	if i.birth != other.birth {
		return sign(i.birth < other.birth)
	}
	if i.registeredAt != other.registeredAt {
		return sign(i.registeredAt < other.registeredAt)
	}
	return bytes.Compare(i.random[:], other.random[:])
}

func encodeTerm(term int64) []byte {
	return []byte(strconv.FormatInt(term, 10))
}

func decodeTerm(data []byte) (int64, bool) {
	return parseDigits(string(data), math.MaxInt64)
}

// The fold: from committed records of one partition to the state of a role

type logRecord struct {
	offset int64
	key    []byte
	value  []byte // nil without a value
}

type rosterEntry struct {
	member       string
	offset       int64
	registeredAt int64
}

type roleState struct {
	lease       *lease // nil without one
	leaseOffset int64
	roster      []rosterEntry // in offset order
}

// fold keeps the record with the highest offset of each key. The member of a registration is the one that its key
// names. It fails on a record that does not decode; a port should rather report it and go on with the other keys.
func fold(role string, records []logRecord) (roleState, error) {
	newest := map[recordKey]logRecord{}
	for _, record := range records {
		key, err := decodeKey(record.key)
		if err != nil {
			return roleState{}, err
		}
		if known, seen := newest[key]; key.role == role && (!seen || record.offset > known.offset) {
			newest[key] = record
		}
	}
	var state roleState
	for key, record := range newest {
		switch {
		case isTombstone(record.value):
		case key.kind == kindLease:
			value, err := decodeLease(record.value)
			if err != nil {
				return roleState{}, err
			}
			state.lease, state.leaseOffset = &value, record.offset
		default:
			value, err := decodeRegistration(record.value)
			if err != nil {
				return roleState{}, err
			}
			state.roster = append(state.roster, rosterEntry{key.member, record.offset, value.registeredAt})
		}
	}
	sort.Slice(state.roster, func(i, j int) bool { return state.roster[i].offset < state.roster[j].offset })
	return state, nil
}

// isHolder tells whether the lease, expired or not, names the member.
func isHolder(member string, held *lease) bool {
	return held != nil && held.member == member
}

// rankOf is the place of an entry in the queue: how many others than the holder registered before it.
func rankOf(entry rosterEntry, held *lease, roster []rosterEntry) int64 {
	rank := int64(0)
	for _, other := range roster {
		if other.offset < entry.offset && !isHolder(other.member, held) {
			rank++
		}
	}
	return rank
}

// The decision

type decision struct {
	word    string
	instant int64 // none for register
}

// decide answers what a member does at an instant of its wall clock. holds is the token of the leadership that it still
// has, nil without one. Clocks only say when to challenge: that a deposed leader cannot write is up to the broker.
func decide(self string, holds *token, held *lease, roster []rosterEntry, now, stagger int64) (decision, error) {
	var own *rosterEntry
	for i := range roster {
		if roster[i].member == self {
			own = &roster[i]
			break
		}
	}
	if own == nil {
		return decision{word: "register"}, nil
	}
	if isHolder(self, held) && now < held.deadline {
		if holds != nil && *holds == held.token {
			return decision{"hold", held.deadline}, nil
		}
		return decision{"challenge", now}, nil // the lease of an earlier life: mint again at once
	}
	anchor, rank := own.registeredAt, rankOf(*own, held, roster)
	if held != nil {
		anchor = held.deadline
	}
	if isHolder(self, held) {
		rank = 0
	}
	// Times are any int64, so the sum may leave it.
	slot := new(big.Int).Mul(big.NewInt(rank), big.NewInt(stagger))
	if slot.Add(slot, big.NewInt(anchor)); !slot.IsInt64() {
		return decision{}, errors.New("the slot is no int64")
	}
	if now >= slot.Int64() {
		return decision{"challenge", slot.Int64()}, nil
	}
	return decision{"wait", slot.Int64()}, nil
}

// The vectors

// reader turns columns into values. It keeps the first error; what is read behind it means nothing.
type reader struct {
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// exactly gives as many texts as asked for, also if there are fewer.
func (r *reader) exactly(texts []string, count int) []string {
	if len(texts) != count {
		r.fail(fmt.Errorf("%d columns or fields where %d belong", len(texts), count))
		return make([]string, count)
	}
	return texts
}

func (r *reader) number(text string, bits int) int64 {
	number, err := strconv.ParseInt(text, 10, bits)
	r.fail(err)
	return number
}

func (r *reader) int64(text string) int64 {
	return r.number(text, 64)
}

func (r *reader) bytes(text string) []byte {
	data, err := hex.DecodeString(text)
	r.fail(err)
	return data
}

func (r *reader) text(text string) string {
	return string(r.bytes(text))
}

func (r *reader) name(text string) string {
	name := r.text(text)
	r.fail(checkName(name))
	return name
}

func (r *reader) value(text string) []byte {
	if text == "-" {
		return nil
	}
	return r.bytes(text)
}

func (r *reader) token(text string) token {
	parsed, sound := parseToken(r.text(text))
	if !sound {
		r.fail(errors.New("no token"))
	}
	return parsed
}

func (r *reader) tokenOrNone(text string) token {
	if r.text(text) == noToken.String() {
		return noToken
	}
	return r.token(text)
}

func (r *reader) incarnation(text string) incarnation {
	decoded, sound := decodeIncarnation(r.bytes(text))
	if !sound {
		r.fail(errors.New("no incarnation"))
	}
	return decoded
}

func (r *reader) lease(fields []string) lease {
	f := r.exactly(fields, 5)
	pair := token{r.int64(f[1]), int16(r.number(f[2], 16))}
	return lease{r.name(f[0]), pair, r.int64(f[3]), r.int64(f[4])}
}

// behind fails unless an offset comes after that of the element before it, if there is one.
func (r *reader) behind(offset int64, before *int64) {
	if before != nil && offset <= *before {
		r.fail(errors.New("not in the order of offsets"))
	}
}

// list splits a column into elements and each of them into fields.
func list(column string) [][]string {
	var elements [][]string
	if column != "" {
		for _, element := range strings.Split(column, ";") {
			elements = append(elements, strings.Split(element, ","))
		}
	}
	return elements
}

func hexOf(text string) string {
	return hex.EncodeToString([]byte(text))
}

func valueHex(value []byte) string {
	if value == nil {
		return "-"
	}
	return hex.EncodeToString(value)
}

func decimal(number int64) string {
	return strconv.FormatInt(number, 10)
}

func leaseFields(value lease) []string {
	pair := value.token
	epoch := decimal(int64(pair.producerEpoch))
	granted, deadline := decimal(value.grantedAt), decimal(value.deadline)
	return []string{hexOf(value.member), decimal(pair.producerID), epoch, granted, deadline}
}

func refusedOr(sound bool, given string) string {
	if sound {
		return "accepted"
	}
	return given
}

// recompute has a function for each file: from the columns between id and check to what they should be.
var recompute = map[string]func(r *reader, given []string) []string{
	"keys":          recomputeKey,
	"registrations": recomputeRegistration,
	"leases":        recomputeLease,
	"tombstones":    recomputeTombstone,
	"partitions":    recomputePartition,
	"tokens":        recomputeToken,
	"malformed":     recomputeMalformed,
	"headers":       recomputeHeader,
	"folds":         recomputeFold,
	"decisions":     recomputeDecision,
}

func recomputeKey(r *reader, given []string) []string {
	g := r.exactly(given, 4)
	kinds := map[keyKind]string{kindRegistration: "registration", kindLease: "lease"}
	kind := kindRegistration
	if g[0] == kinds[kindLease] {
		kind = kindLease
	} else if g[0] != kinds[kindRegistration] {
		r.fail(errors.New("unknown kind"))
	}
	encoded, err := encodeKey(recordKey{kind, r.text(g[1]), r.text(g[2])})
	r.fail(err)
	decoded, err := decodeKey(r.bytes(g[3]))
	r.fail(err)
	return []string{kinds[decoded.kind], hexOf(decoded.role), hexOf(decoded.member), hex.EncodeToString(encoded)}
}

func recomputeRegistration(r *reader, given []string) []string {
	g := r.exactly(given, 3)
	encoded, err := encodeRegistration(registration{r.text(g[0]), r.int64(g[1])})
	r.fail(err)
	decoded, err := decodeRegistration(r.bytes(g[2]))
	r.fail(err)
	return []string{hexOf(decoded.member), decimal(decoded.registeredAt), hex.EncodeToString(encoded)}
}

func recomputeLease(r *reader, given []string) []string {
	g := r.exactly(given, 6)
	encoded, err := encodeLease(r.lease(g[:5]))
	r.fail(err)
	decoded, err := decodeLease(r.bytes(g[5]))
	r.fail(err)
	return append(leaseFields(decoded), hex.EncodeToString(encoded))
}

func recomputeTombstone(r *reader, given []string) []string {
	g := r.exactly(given, 2)
	value := r.value(g[0])
	return []string{valueHex(value), strconv.FormatBool(isTombstone(value))}
}

func recomputePartition(r *reader, given []string) []string {
	g := r.exactly(given, 4)
	role, partitions := r.name(g[0]), int32(r.number(g[2], 32))
	if partitions < 1 {
		r.fail(errors.New("a topic has a partition at least"))
		return nil
	}
	hash, partition := murmur2([]byte(role)), partitionOf(role, partitions)
	return []string{hexOf(role), decimal(int64(hash)), decimal(int64(partitions)), decimal(int64(partition))}
}

func recomputeToken(r *reader, given []string) []string {
	switch given[0] {
	case "text":
		g := r.exactly(given, 4)
		printed := token{r.int64(g[1]), int16(r.number(g[2], 16))}
		parsed := r.token(g[3])
		return []string{g[0], decimal(parsed.producerID), decimal(int64(parsed.producerEpoch)), hexOf(printed.String())}
	case "order":
		g := r.exactly(given, 4)
		left, right := r.tokenOrNone(g[1]), r.tokenOrNone(g[2])
		return []string{g[0], hexOf(left.String()), hexOf(right.String()), strconv.Itoa(left.compare(right))}
	case "refused":
		g := r.exactly(given, 2)
		text := r.text(g[1])
		_, sound := parseToken(text)
		return []string{g[0], refusedOr(sound, hexOf(text))}
	}
	r.fail(errors.New("unknown check"))
	return nil
}

func recomputeMalformed(r *reader, given []string) []string {
	g := r.exactly(given, 5)
	data := r.bytes(g[1])
	var err error
	switch g[0] {
	case "key":
		_, err = decodeKey(data)
	case "registration":
		_, err = decodeRegistration(data)
	case "lease":
		_, err = decodeLease(data)
	default:
		r.fail(errors.New("unknown decoder"))
	}
	part, offset, reason := "accepted", "-", "-"
	var refused *refusal
	if errors.As(err, &refused) {
		part, offset, reason = refused.part, strconv.Itoa(refused.offset), refused.reason
	}
	return []string{g[0], hex.EncodeToString(data), part, offset, reason}
}

func recomputeHeader(r *reader, given []string) []string {
	switch given[0] {
	case "incarnation":
		g := r.exactly(given, 5)
		encoded := incarnation{birth: r.int64(g[2]), registeredAt: r.int64(g[3])}
		if copy(encoded.random[:], r.bytes(g[1])) != 16 || len(g[1]) != 32 {
			r.fail(errors.New("not 16 random bytes"))
		}
		decoded := r.incarnation(g[4])
		random := hex.EncodeToString(decoded.random[:])
		encodedHex := hex.EncodeToString(encodeIncarnation(encoded))
		return []string{g[0], random, decimal(decoded.birth), decimal(decoded.registeredAt), encodedHex}
	case "incarnation-refused":
		g := r.exactly(given, 2)
		data := r.bytes(g[1])
		_, sound := decodeIncarnation(data)
		return []string{g[0], refusedOr(sound, hex.EncodeToString(data))}
	case "incarnation-order":
		g := r.exactly(given, 4)
		left, right := r.incarnation(g[1]), r.incarnation(g[2])
		leftHex, rightHex := hex.EncodeToString(encodeIncarnation(left)), hex.EncodeToString(encodeIncarnation(right))
		return []string{g[0], leftHex, rightHex, strconv.Itoa(left.compare(right))}
	case "term":
		g := r.exactly(given, 3)
		term, sound := decodeTerm(r.bytes(g[2]))
		if !sound {
			r.fail(errors.New("no term"))
		}
		return []string{g[0], decimal(term), hex.EncodeToString(encodeTerm(r.int64(g[1])))}
	case "term-refused":
		g := r.exactly(given, 2)
		data := r.bytes(g[1])
		_, sound := decodeTerm(data)
		return []string{g[0], refusedOr(sound, hex.EncodeToString(data))}
	}
	r.fail(errors.New("unknown check"))
	return nil
}

func recomputeFold(r *reader, given []string) []string {
	g := r.exactly(given, 5)
	role := r.name(g[1])
	var records []logRecord
	var printed []string
	var before *int64
	for _, fields := range list(g[2]) {
		f := r.exactly(fields, 3)
		record := logRecord{r.int64(f[0]), r.bytes(f[1]), r.value(f[2])}
		r.behind(record.offset, before)
		before = &record.offset
		records = append(records, record)
		recordFields := []string{decimal(record.offset), hex.EncodeToString(record.key), valueHex(record.value)}
		printed = append(printed, strings.Join(recordFields, ","))
	}
	state, err := fold(role, records)
	r.fail(err)
	leaseText := "-"
	if state.lease != nil {
		leaseText = strings.Join(append(leaseFields(*state.lease), decimal(state.leaseOffset)), ",")
	}
	var roster []string
	for _, entry := range state.roster {
		rank := "-"
		if !isHolder(entry.member, state.lease) {
			rank = decimal(rankOf(entry, state.lease, state.roster))
		}
		fields := []string{hexOf(entry.member), decimal(entry.offset), decimal(entry.registeredAt), rank}
		roster = append(roster, strings.Join(fields, ","))
	}
	return []string{g[0], hexOf(role), strings.Join(printed, ";"), leaseText, strings.Join(roster, ";")}
}

func recomputeDecision(r *reader, given []string) []string {
	g := r.exactly(given, 9)
	self, now, stagger := r.name(g[1]), r.int64(g[5]), r.number(g[6], 32)
	holdsText, leaseText := "-", "-"
	var holds *token
	if g[2] != "-" {
		parsed := r.token(g[2])
		holds, holdsText = &parsed, hexOf(parsed.String())
	}
	var held *lease
	if g[3] != "-" {
		parsed := r.lease(strings.Split(g[3], ","))
		held, leaseText = &parsed, strings.Join(leaseFields(parsed), ",")
	}
	var roster []rosterEntry
	var printed []string
	var before *int64
	members := map[string]bool{}
	for _, fields := range list(g[4]) {
		f := r.exactly(fields, 3)
		entry := rosterEntry{r.name(f[0]), r.int64(f[1]), r.int64(f[2])}
		r.behind(entry.offset, before)
		before = &entry.offset
		if members[entry.member] {
			r.fail(errors.New("a member twice in the roster"))
		}
		members[entry.member] = true
		roster = append(roster, entry)
		entryFields := []string{hexOf(entry.member), decimal(entry.offset), decimal(entry.registeredAt)}
		printed = append(printed, strings.Join(entryFields, ","))
	}
	decided, err := decide(self, holds, held, roster, now, stagger)
	r.fail(err)
	instant := "-"
	if decided.word != "register" {
		instant = decimal(decided.instant)
	}
	return []string{
		g[0], hexOf(self), holdsText, leaseText, strings.Join(printed, ";"),
		decimal(now), decimal(stagger), decided.word, instant,
	}
}

// line is what stands on the line of an id with these columns: all of it, then its hash.
func line(id string, columns []string) string {
	text := strings.Join(append([]string{id}, columns...), "\t")
	return text + "\t" + decimal(int64(murmur2([]byte(text))))
}

// recomputeLine returns what belongs on the line of a vector.
func recomputeLine(given string) (string, error) {
	columns := strings.Split(given, "\t")
	if len(columns) < 3 {
		return "", errors.New("too few columns")
	}
	file, _, _ := strings.Cut(columns[0], "/")
	if recompute[file] == nil {
		return "", errors.New("unknown kind of vector")
	}
	r := &reader{}
	printed := recompute[file](r, columns[1:len(columns)-1])
	return line(columns[0], printed), r.err
}

// firstDifference names the first column, the id being 1, in which two lines differ.
func firstDifference(printed, given string) string {
	p, g := strings.Split(printed, "\t"), strings.Split(given, "\t")
	if len(p) != len(g) {
		return fmt.Sprintf("printed %d columns, given %d", len(p), len(g))
	}
	i := 0
	for i < len(p)-1 && p[i] == g[i] {
		i++
	}
	return fmt.Sprintf("column %d: printed %s, given %s", i+1, p[i], g[i])
}

// check writes the recomputed lines, and reports what differs and what cannot be read. It returns whether all was
// equal.
func check(input string, output, report *bytes.Buffer) bool {
	sound, differ := true, 0
	complain := func(where string, what string) {
		fmt.Fprintf(report, "%s: %s\n", where, what)
		sound = false
	}
	lines := strings.Split(input, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		complain("last line", "has no end")
	}
	vectors := lines
	if len(lines) > 0 {
		vectors = lines[1:]
	}
	first := line("vectors", []string{strconv.Itoa(formatVersion), strconv.Itoa(len(vectors))})
	fmt.Fprintln(output, first)
	if len(lines) == 0 {
		complain("first line", "missing")
	} else if lines[0] != first {
		complain("first line", firstDifference(first, lines[0]))
	}
	for _, given := range vectors {
		printed, err := recomputeLine(given)
		if err == nil {
			fmt.Fprintln(output, printed)
		}
		if err == nil && printed == given {
			continue
		}
		differ++
		id, _, _ := strings.Cut(given, "\t")
		if err != nil {
			complain(id, "not readable: "+err.Error())
		} else {
			complain(id, firstDifference(printed, given))
		}
	}
	fmt.Fprintf(report, "%d vectors, %d differ\n", len(vectors), differ)
	return sound
}

func run(arguments []string) error {
	source := os.Stdin
	if len(arguments) > 1 {
		return errors.New("usage: mandate_vectors [FILE]")
	}
	if len(arguments) == 1 {
		file, err := os.Open(arguments[0])
		if err != nil {
			return err
		}
		defer file.Close()
		source = file
	}
	input, err := io.ReadAll(source)
	if err != nil {
		return err
	}
	var output, report bytes.Buffer
	sound := check(string(input), &output, &report)
	_, outputErr := os.Stdout.Write(output.Bytes())
	_, reportErr := os.Stderr.Write(report.Bytes())
	if outputErr != nil || reportErr != nil {
		return errors.New("the output could not be written")
	}
	if !sound {
		os.Exit(1)
	}
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
