import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;

/**
 * An implementation of the frozen coordination format, version 0, and of the rules that all ports share, which checks
 * the golden vectors: standard library only, Java 17 or newer. The layout stands in ../README.md. The first part of the
 * file may start a new port; only what follows "The vectors" is about checking.
 *
 * <pre>
 * java MandateVectors.java ../v0/vectors.tsv
 * java -cp kafka-clients.jar:slf4j-api.jar MandateVectors.java ../v0/vectors.tsv    # compares murmur2 with Kafka's too
 * </pre>
 *
 * It prints each line as it computes it (bytes from the fields, fields from the bytes), so that a right implementation
 * prints what it read. What differs is named on standard error, and the exit code is 0 only if nothing does.
 */
public final class MandateVectors {

  // The format

  static final short FORMAT_VERSION = 0;
  static final int MAX_NAME_BYTES = 249;

  enum Kind {
    REGISTRATION,
    LEASE;

    String word() {
      return this == LEASE ? "lease" : "registration";
    }
  }

  /**
   * Names are strings without lone surrogates, which is what a reporting decoder makes of well-formed UTF-8: nothing is
   * lost on the way there and back. The member of a lease key is "".
   */
  record Key(Kind kind, String role, String member) {}

  record Registration(String member, long registeredAt) {}

  record Lease(String member, Token token, long grantedAt, long deadline) {}

  /** Says which part of the bytes is outside the format, at which byte it starts, and why. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;
    final String part;
    final int offset;
    final String reason;

    Refused(String part, int offset, String reason) {
      super("refused: " + part + " at " + offset + ": " + reason);
      this.part = part;
      this.offset = offset;
      this.reason = reason;
    }
  }

  /** Reads a record from front to back. */
  static final class Cursor {
    private final String decoder;
    private final ByteBuffer data;

    Cursor(String decoder, byte[] data) {
      this.decoder = decoder;
      this.data = ByteBuffer.wrap(data);
    }

    int at() {
      return data.position();
    }

    Refused refused(String field, int offset, String reason) {
      return new Refused(decoder + "." + field, offset, reason);
    }

    private void need(String field, int size) throws Refused {
      if (size > data.remaining()) throw refused(field, at(), "truncated");
    }

    short int16(String field) throws Refused {
      need(field, Short.BYTES);
      return data.getShort();
    }

    long int64(String field) throws Refused {
      need(field, Long.BYTES);
      return data.getLong();
    }

    void version() throws Refused {
      if (int16("version") != FORMAT_VERSION) throw refused("version", 0, "unknown-version");
    }

    String name(String field) throws Refused {
      int start = at();
      int size = int16(field);
      if (size < 0) throw refused(field, start, "negative-length");
      if (size == 0) throw refused(field, start, "empty-name");
      if (size > MAX_NAME_BYTES) throw refused(field, start, "overlong-name");
      need(field, size);
      byte[] name = new byte[size];
      data.get(name);
      return decodeUtf8(name).orElseThrow(() -> refused(field, start + Short.BYTES, "invalid-utf8"));
    }

    void end() throws Refused {
      if (data.hasRemaining()) throw refused("end", at(), "trailing-bytes");
    }
  }

  /** `new String` would replace what is not well-formed instead of refusing it. */
  static Optional<String> decodeUtf8(byte[] bytes) {
    try {
      return Optional.of(
          StandardCharsets.UTF_8
              .newDecoder()
              .onMalformedInput(CodingErrorAction.REPORT)
              .onUnmappableCharacter(CodingErrorAction.REPORT)
              .decode(ByteBuffer.wrap(bytes))
              .toString());
    } catch (CharacterCodingException malformed) {
      return Optional.empty();
    }
  }

  static Key decodeKey(byte[] data) throws Refused {
    Cursor cursor = new Cursor("key", data);
    cursor.version();
    int kindCode = cursor.int16("kind");
    if (kindCode != 0 && kindCode != 1) throw cursor.refused("kind", 2, "unknown-kind");
    Kind kind = Kind.values()[kindCode];
    String role = cursor.name("role");
    String member = "";
    if (kind == Kind.REGISTRATION) {
      member = cursor.name("member");
    } else {
      int start = cursor.at();
      int size = cursor.int16("member");
      if (size < 0) throw cursor.refused("member", start, "negative-length");
      if (size > 0) throw cursor.refused("member", start, "lease-member");
    }
    cursor.end();
    return new Key(kind, role, member);
  }

  static Registration decodeRegistration(byte[] data) throws Refused {
    Cursor cursor = new Cursor("registration", data);
    cursor.version();
    Registration registration = new Registration(cursor.name("member"), cursor.int64("registered_at"));
    cursor.end();
    return registration;
  }

  /** Takes any time, and a deadline before the grant. */
  static Lease decodeLease(byte[] data) throws Refused {
    Cursor cursor = new Cursor("lease", data);
    cursor.version();
    String member = cursor.name("member");
    int start = cursor.at();
    long producerId = cursor.int64("producer_id");
    if (producerId < 0) throw cursor.refused("producer_id", start, "negative-producer-id");
    start = cursor.at();
    short producerEpoch = cursor.int16("producer_epoch");
    if (producerEpoch < 0) throw cursor.refused("producer_epoch", start, "negative-producer-epoch");
    Token token = new Token(producerId, producerEpoch);
    Lease lease = new Lease(member, token, cursor.int64("granted_at"), cursor.int64("deadline"));
    cursor.end();
    return lease;
  }

  static byte[] checkedName(String name) {
    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
    // A lone surrogate cannot be encoded: it would become a question mark.
    if (!decodeUtf8(bytes).equals(Optional.of(name))) throw new IllegalArgumentException("invalid-utf8");
    if (bytes.length == 0) throw new IllegalArgumentException("empty-name");
    if (bytes.length > MAX_NAME_BYTES) throw new IllegalArgumentException("overlong-name");
    return bytes;
  }

  static byte[] encodeKey(Key key) {
    byte[] role = checkedName(key.role);
    byte[] member = {};
    if (key.kind == Kind.REGISTRATION) {
      member = checkedName(key.member);
    } else if (!key.member.isEmpty()) {
      throw new IllegalArgumentException("lease-member");
    }
    return ByteBuffer.allocate(8 + role.length + member.length)
        .putShort(FORMAT_VERSION)
        .putShort((short) key.kind.ordinal())
        .putShort((short) role.length)
        .put(role)
        .putShort((short) member.length)
        .put(member)
        .array();
  }

  static byte[] encodeRegistration(Registration registration) {
    byte[] member = checkedName(registration.member);
    return ByteBuffer.allocate(12 + member.length)
        .putShort(FORMAT_VERSION)
        .putShort((short) member.length)
        .put(member)
        .putLong(registration.registeredAt)
        .array();
  }

  static byte[] encodeLease(Lease lease) {
    byte[] member = checkedName(lease.member);
    Token token = lease.token;
    if (token.producerId < 0 || token.producerEpoch < 0) throw new IllegalArgumentException("negative-token");
    return ByteBuffer.allocate(30 + member.length)
        .putShort(FORMAT_VERSION)
        .putShort((short) member.length)
        .put(member)
        .putLong(token.producerId)
        .putShort(token.producerEpoch)
        .putLong(lease.grantedAt)
        .putLong(lease.deadline)
        .array();
  }

  /** Whether a record with this value deletes its key: without a value (null), or with one of zero bytes. */
  static boolean isTombstone(byte[] value) {
    return value == null || value.length == 0;
  }

  // The hash

  /** Kafka's murmur2, which is signed. */
  static int murmur2(byte[] data) {
    final int m = 0x5bd1e995;
    int h = 0x9747b28c ^ data.length;
    ByteBuffer rest = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    while (rest.remaining() >= 4) {
      int k = rest.getInt() * m;
      k ^= k >>> 24;
      h = h * m ^ k * m;
    }
    if (rest.hasRemaining()) {
      for (int shift = 0; rest.hasRemaining(); shift += 8) h ^= (rest.get() & 0xff) << shift;
      h *= m;
    }
    h ^= h >>> 13;
    h *= m;
    return h ^ h >>> 15;
  }

  /** The partition of both kinds of records of a role. It never depends on the record's key. */
  static int partition(String role, int partitions) {
    return (murmur2(checkedName(role)) & Integer.MAX_VALUE) % partitions;
  }

  // The token

  /** The pair minted by InitProducerId. Its order is for sorting: it does not say which of two leaders came later. */
  record Token(long producerId, short producerEpoch) implements Comparable<Token> {
    /** Ranks below all tokens. */
    static final Token NONE = new Token(-1, (short) -1);

    private static final Comparator<Token> ORDER =
        Comparator.comparingLong(Token::producerId).thenComparingInt(Token::producerEpoch);

    @Override
    public int compareTo(Token other) {
      return ORDER.compare(this, other);
    }

    @Override
    public String toString() {
      return producerId + ":" + producerEpoch;
    }

    static Optional<Token> parse(String text) {
      int colon = text.indexOf(':');
      if (colon < 0) return Optional.empty();
      OptionalLong producerId = parseDigits(text.substring(0, colon), Long.MAX_VALUE);
      OptionalLong producerEpoch = parseDigits(text.substring(colon + 1), Short.MAX_VALUE);
      if (producerId.isEmpty() || producerEpoch.isEmpty()) return Optional.empty();
      return Optional.of(new Token(producerId.getAsLong(), (short) producerEpoch.getAsLong()));
    }
  }

  /** Takes the one decimal text of each number from 0 to greatest: ASCII digits, no sign, no leading zero. */
  static OptionalLong parseDigits(String text, long greatest) {
    try {
      long number = Long.parseLong(text);
      boolean sound = number >= 0 && number <= greatest && Long.toString(number).equals(text);
      return sound ? OptionalLong.of(number) : OptionalLong.empty();
    } catch (NumberFormatException malformed) {
      return OptionalLong.empty();
    }
  }

  // The record headers. They are outside the frozen format: only the TypeScript library writes them, other ports may
  // leave them out.

  record Incarnation(byte[] random, long birth, long registeredAt) implements Comparable<Incarnation> {
    static final int RANDOM_BYTES = 16;

    private static final Comparator<Incarnation> ORDER =
        Comparator.comparingLong(Incarnation::birth)
            .thenComparingLong(Incarnation::registeredAt)
            .thenComparing(Incarnation::random, Arrays::compareUnsigned);

    @Override
    public int compareTo(Incarnation other) {
      return ORDER.compare(this, other);
    }

    byte[] encode() {
      return ByteBuffer.allocate(RANDOM_BYTES + 16).put(random).putLong(birth).putLong(registeredAt).array();
    }

    static Optional<Incarnation> decode(byte[] bytes) {
      if (bytes.length != RANDOM_BYTES + 16) return Optional.empty();
      ByteBuffer data = ByteBuffer.wrap(bytes);
      byte[] random = new byte[RANDOM_BYTES];
      data.get(random);
      return Optional.of(new Incarnation(random, data.getLong(), data.getLong()));
    }
  }

  static byte[] encodeTerm(long term) {
    return Long.toString(term).getBytes(StandardCharsets.ISO_8859_1);
  }

  static OptionalLong decodeTerm(byte[] bytes) {
    return parseDigits(new String(bytes, StandardCharsets.ISO_8859_1), Long.MAX_VALUE);
  }

  // The fold: from committed records of one partition to the state of a role

  /** A record of the log; its value is null without one. */
  record LogRecord(long offset, byte[] key, byte[] value) {}

  record RosterEntry(String member, long offset, long registeredAt) {}

  /** The roster is in offset order. The offset means nothing without a lease. */
  record RoleState(Optional<Lease> lease, long leaseOffset, List<RosterEntry> roster) {}

  /**
   * Keeps the record with the highest offset of each key. The member of a registration is the one that its key names.
   *
   * @throws Refused on a record that does not decode; a port should rather report it and go on with the other keys
   */
  static RoleState fold(String role, List<LogRecord> records) throws Refused {
    Map<Key, LogRecord> newest = new HashMap<>();
    for (LogRecord record : records) {
      Key key = decodeKey(record.key);
      if (!key.role.equals(role)) continue;
      newest.merge(key, record, (known, other) -> other.offset > known.offset ? other : known);
    }
    Optional<Lease> lease = Optional.empty();
    long leaseOffset = -1;
    List<RosterEntry> roster = new ArrayList<>();
    for (Map.Entry<Key, LogRecord> entry : newest.entrySet()) {
      Key key = entry.getKey();
      LogRecord record = entry.getValue();
      if (isTombstone(record.value)) continue;
      if (key.kind == Kind.LEASE) {
        lease = Optional.of(decodeLease(record.value));
        leaseOffset = record.offset;
      } else {
        roster.add(new RosterEntry(key.member, record.offset, decodeRegistration(record.value).registeredAt));
      }
    }
    roster.sort(Comparator.comparingLong(RosterEntry::offset));
    return new RoleState(lease, leaseOffset, roster);
  }

  /** Whether the lease, expired or not, names the member. */
  static boolean isHolder(String member, Optional<Lease> lease) {
    return lease.isPresent() && lease.get().member.equals(member);
  }

  /** The place of an entry in the queue: how many others than the holder registered before it. */
  static long rank(RosterEntry entry, Optional<Lease> lease, List<RosterEntry> roster) {
    return roster.stream()
        .filter(other -> other.offset < entry.offset && !isHolder(other.member, lease))
        .count();
  }

  // The decision

  /** The word is register (without an instant), hold, challenge or wait. */
  record Decision(String word, OptionalLong instant) {
    Decision(String word, long instant) {
      this(word, OptionalLong.of(instant));
    }
  }

  /**
   * What a member does at an instant of its wall clock. `holds` is the token of the leadership that it still has.
   * Clocks only say when to challenge: that a deposed leader cannot write is up to the broker.
   *
   * @throws ArithmeticException if the slot is no int64, which times can be that others wrote
   */
  static Decision decide(
      String self, Optional<Token> holds, Optional<Lease> lease, List<RosterEntry> roster, long now, long stagger) {
    Optional<RosterEntry> own = roster.stream().filter(entry -> entry.member.equals(self)).findFirst();
    if (own.isEmpty()) return new Decision("register", OptionalLong.empty());
    if (isHolder(self, lease) && now < lease.get().deadline) {
      if (holds.equals(lease.map(Lease::token))) return new Decision("hold", lease.get().deadline);
      return new Decision("challenge", now); // the lease of an earlier life: mint again at once
    }
    long anchor = lease.isPresent() ? lease.get().deadline : own.get().registeredAt;
    long rank = isHolder(self, lease) ? 0 : rank(own.get(), lease, roster);
    long slot =
        BigInteger.valueOf(rank)
            .multiply(BigInteger.valueOf(stagger))
            .add(BigInteger.valueOf(anchor))
            .longValueExact();
    return new Decision(now >= slot ? "challenge" : "wait", slot);
  }

  // The vectors

  static final HexFormat HEX = HexFormat.of();
  private static final KafkaHash KAFKA_HASH = new KafkaHash();

  /** Recomputes one line: from the columns between id and check to what they should be. */
  interface Recompute {
    List<String> apply(List<String> given) throws Refused;
  }

  static final Map<String, Recompute> RECOMPUTE =
      Map.of(
          "keys", MandateVectors::recomputeKey,
          "registrations", MandateVectors::recomputeRegistration,
          "leases", MandateVectors::recomputeLease,
          "tombstones", MandateVectors::recomputeTombstone,
          "partitions", MandateVectors::recomputePartition,
          "tokens", MandateVectors::recomputeToken,
          "malformed", MandateVectors::recomputeMalformed,
          "headers", MandateVectors::recomputeHeader,
          "folds", MandateVectors::recomputeFold,
          "decisions", MandateVectors::recomputeDecision);

  static List<String> recomputeKey(List<String> given) throws Refused {
    List<String> g = exactly(given, 4);
    Kind kind = oneOf(g.get(0), Kind.LEASE.word(), Kind.REGISTRATION.word()) ? Kind.LEASE : Kind.REGISTRATION;
    String member = g.get(2).isEmpty() ? "" : name(g.get(2));
    byte[] encoded = encodeKey(new Key(kind, name(g.get(1)), member));
    Key decoded = decodeKey(bytes(g.get(3)));
    return List.of(decoded.kind.word(), hex(decoded.role), hex(decoded.member), hex(encoded));
  }

  static List<String> recomputeRegistration(List<String> given) throws Refused {
    List<String> g = exactly(given, 3);
    byte[] encoded = encodeRegistration(new Registration(name(g.get(0)), int64(g.get(1))));
    Registration decoded = decodeRegistration(bytes(g.get(2)));
    return List.of(hex(decoded.member), Long.toString(decoded.registeredAt), hex(encoded));
  }

  static List<String> recomputeLease(List<String> given) throws Refused {
    List<String> g = exactly(given, 6);
    byte[] encoded = encodeLease(lease(g.subList(0, 5)));
    Lease decoded = decodeLease(bytes(g.get(5)));
    return with(leaseFields(decoded), List.of(hex(encoded)));
  }

  static List<String> recomputeTombstone(List<String> given) {
    byte[] value = value(exactly(given, 2).get(0));
    return List.of(valueHex(value), Boolean.toString(isTombstone(value)));
  }

  static List<String> recomputePartition(List<String> given) {
    List<String> g = exactly(given, 4);
    String role = name(g.get(0));
    int partitions = Integer.parseInt(g.get(2));
    if (partitions < 1) throw new IllegalArgumentException("a topic has a partition at least");
    int hash = KAFKA_HASH.compared(checkedName(role));
    int partition = partition(role, partitions);
    return List.of(hex(role), Integer.toString(hash), Integer.toString(partitions), Integer.toString(partition));
  }

  static List<String> recomputeToken(List<String> given) {
    String check = given.get(0);
    switch (check) {
      case "text": {
        List<String> g = exactly(given, 4);
        Token printed = new Token(int64(g.get(1)), Short.parseShort(g.get(2)));
        Token parsed = token(g.get(3));
        String epoch = Short.toString(parsed.producerEpoch);
        return List.of(check, Long.toString(parsed.producerId), epoch, hex(printed.toString()));
      }
      case "order": {
        List<String> g = exactly(given, 4);
        Token left = tokenOrNone(g.get(1));
        Token right = tokenOrNone(g.get(2));
        return List.of(check, hex(left.toString()), hex(right.toString()), sign(left.compareTo(right)));
      }
      case "refused": {
        String text = text(exactly(given, 2).get(1));
        boolean sound = Token.parse(text).isPresent();
        return List.of(check, sound ? "accepted" : hex(text.getBytes(StandardCharsets.ISO_8859_1)));
      }
      default:
        throw new IllegalArgumentException("unknown check");
    }
  }

  static List<String> recomputeMalformed(List<String> given) {
    List<String> g = exactly(given, 5);
    String decoder = g.get(0);
    byte[] data = bytes(g.get(1));
    try {
      switch (decoder) {
        case "key" -> decodeKey(data);
        case "registration" -> decodeRegistration(data);
        case "lease" -> decodeLease(data);
        default -> throw new IllegalArgumentException("unknown decoder");
      }
      return List.of(decoder, hex(data), "accepted", "-", "-");
    } catch (Refused refused) {
      return List.of(decoder, hex(data), refused.part, Integer.toString(refused.offset), refused.reason);
    }
  }

  static List<String> recomputeHeader(List<String> given) {
    String check = given.get(0);
    switch (check) {
      case "incarnation": {
        List<String> g = exactly(given, 5);
        byte[] random = bytes(g.get(1));
        if (random.length != Incarnation.RANDOM_BYTES) throw new IllegalArgumentException("not 16 random bytes");
        byte[] encoded = new Incarnation(random, int64(g.get(2)), int64(g.get(3))).encode();
        Incarnation decoded = incarnation(g.get(4));
        String birth = Long.toString(decoded.birth);
        return List.of(check, hex(decoded.random), birth, Long.toString(decoded.registeredAt), hex(encoded));
      }
      case "incarnation-refused": {
        byte[] data = bytes(exactly(given, 2).get(1));
        return List.of(check, Incarnation.decode(data).isPresent() ? "accepted" : hex(data));
      }
      case "incarnation-order": {
        List<String> g = exactly(given, 4);
        Incarnation left = incarnation(g.get(1));
        Incarnation right = incarnation(g.get(2));
        return List.of(check, hex(left.encode()), hex(right.encode()), sign(left.compareTo(right)));
      }
      case "term": {
        List<String> g = exactly(given, 3);
        OptionalLong term = decodeTerm(bytes(g.get(2)));
        if (term.isEmpty()) throw new IllegalArgumentException("no term");
        return List.of(check, Long.toString(term.getAsLong()), hex(encodeTerm(int64(g.get(1)))));
      }
      case "term-refused": {
        byte[] data = bytes(exactly(given, 2).get(1));
        return List.of(check, decodeTerm(data).isPresent() ? "accepted" : hex(data));
      }
      default:
        throw new IllegalArgumentException("unknown check");
    }
  }

  static List<String> recomputeFold(List<String> given) throws Refused {
    List<String> g = exactly(given, 5);
    String role = name(g.get(1));
    List<LogRecord> records = new ArrayList<>();
    List<String> printed = new ArrayList<>();
    OptionalLong before = OptionalLong.empty();
    for (List<String> fields : list(g.get(2))) {
      List<String> f = exactly(fields, 3);
      LogRecord record = new LogRecord(int64(f.get(0)), bytes(f.get(1)), value(f.get(2)));
      records.add(record);
      before = OptionalLong.of(behind(record.offset, before));
      printed.add(record.offset + "," + hex(record.key) + "," + valueHex(record.value));
    }
    RoleState state = fold(role, records);
    String leaseText = "-";
    if (state.lease.isPresent()) {
      leaseText = String.join(",", leaseFields(state.lease.get())) + "," + state.leaseOffset;
    }
    List<String> roster = new ArrayList<>();
    for (RosterEntry entry : state.roster) {
      boolean holds = isHolder(entry.member, state.lease);
      roster.add(rosterFields(entry) + "," + (holds ? "-" : rank(entry, state.lease, state.roster)));
    }
    return List.of(g.get(0), hex(role), String.join(";", printed), leaseText, String.join(";", roster));
  }

  static List<String> recomputeDecision(List<String> given) {
    List<String> g = exactly(given, 9);
    String self = name(g.get(1));
    Optional<Token> holds = g.get(2).equals("-") ? Optional.empty() : Optional.of(token(g.get(2)));
    Optional<Lease> lease = g.get(3).equals("-") ? Optional.empty() : Optional.of(lease(split(g.get(3), ",")));
    List<RosterEntry> roster = new ArrayList<>();
    List<String> printed = new ArrayList<>();
    OptionalLong before = OptionalLong.empty();
    Set<String> members = new HashSet<>();
    for (List<String> fields : list(g.get(4))) {
      List<String> f = exactly(fields, 3);
      RosterEntry entry = new RosterEntry(name(f.get(0)), int64(f.get(1)), int64(f.get(2)));
      roster.add(entry);
      before = OptionalLong.of(behind(entry.offset, before));
      if (!members.add(entry.member)) throw new IllegalArgumentException("a member twice in the roster");
      printed.add(rosterFields(entry));
    }
    long now = int64(g.get(5));
    int stagger = Integer.parseInt(g.get(6));
    Decision decision = decide(self, holds, lease, roster, now, stagger);
    return List.of(
        g.get(0),
        hex(self),
        holds.map(token -> hex(token.toString())).orElse("-"),
        lease.map(held -> String.join(",", leaseFields(held))).orElse("-"),
        String.join(";", printed),
        Long.toString(now),
        Integer.toString(stagger),
        decision.word,
        decision.instant.isPresent() ? Long.toString(decision.instant.getAsLong()) : "-");
  }

  // Columns to values and back. What does not fit is an IllegalArgumentException, which checkLine() reports.

  static List<String> exactly(List<String> texts, int count) {
    if (texts.size() != count) {
      throw new IllegalArgumentException(texts.size() + " columns or fields where " + count + " belong");
    }
    return texts;
  }

  /** Whether it is the first of the words; anything but one of them is refused. */
  static boolean oneOf(String text, String... words) {
    if (!Arrays.asList(words).contains(text)) throw new IllegalArgumentException("not a word that belongs here");
    return text.equals(words[0]);
  }

  static long int64(String text) {
    return Long.parseLong(text);
  }

  /** The offset, which comes after that of the element before it, if there is one. */
  static long behind(long offset, OptionalLong before) {
    if (before.isPresent() && offset <= before.getAsLong()) {
      throw new IllegalArgumentException("not in the order of offsets");
    }
    return offset;
  }

  static byte[] bytes(String text) {
    return HEX.parseHex(text);
  }

  /** Each byte as one character: texts of tokens and terms are ASCII if they are sound. */
  static String text(String text) {
    return new String(bytes(text), StandardCharsets.ISO_8859_1);
  }

  static String name(String text) {
    String name = decodeUtf8(bytes(text)).orElseThrow(() -> new IllegalArgumentException("invalid-utf8"));
    checkedName(name);
    return name;
  }

  static byte[] value(String text) {
    return text.equals("-") ? null : bytes(text);
  }

  static Token token(String text) {
    return Token.parse(text(text)).orElseThrow(() -> new IllegalArgumentException("no token"));
  }

  static Token tokenOrNone(String text) {
    return text(text).equals(Token.NONE.toString()) ? Token.NONE : token(text);
  }

  static Incarnation incarnation(String text) {
    return Incarnation.decode(bytes(text)).orElseThrow(() -> new IllegalArgumentException("no incarnation"));
  }

  static Lease lease(List<String> fields) {
    List<String> f = exactly(fields, 5);
    Token token = new Token(int64(f.get(1)), Short.parseShort(f.get(2)));
    return new Lease(name(f.get(0)), token, int64(f.get(3)), int64(f.get(4)));
  }

  /** String.split drops empty parts at the end unless told not to. */
  static List<String> split(String text, String separator) {
    return Arrays.asList(text.split(separator, -1));
  }

  /** A column's elements, each split into its fields. */
  static List<List<String>> list(String column) {
    if (column.isEmpty()) return List.of();
    return split(column, ";").stream().map(element -> split(element, ",")).toList();
  }

  static String hex(byte[] bytes) {
    return HEX.formatHex(bytes);
  }

  static String hex(String text) {
    return hex(text.getBytes(StandardCharsets.UTF_8));
  }

  static String valueHex(byte[] value) {
    return value == null ? "-" : hex(value);
  }

  static List<String> leaseFields(Lease lease) {
    return List.of(
        hex(lease.member),
        Long.toString(lease.token.producerId),
        Short.toString(lease.token.producerEpoch),
        Long.toString(lease.grantedAt),
        Long.toString(lease.deadline));
  }

  static String rosterFields(RosterEntry entry) {
    return hex(entry.member) + "," + entry.offset + "," + entry.registeredAt;
  }

  static String sign(int comparison) {
    return Integer.toString(Integer.signum(comparison));
  }

  static List<String> with(List<String> texts, List<String> more) {
    List<String> all = new ArrayList<>(texts);
    all.addAll(more);
    return all;
  }

  // The driver

  private final StringBuilder output = new StringBuilder();
  private final StringBuilder report = new StringBuilder();
  private boolean sound = true;

  private void complain(String where, String what) {
    report.append(where).append(": ").append(what).append('\n');
    sound = false;
  }

  /** What stands on the line of an id with these columns: all of it, then its hash. */
  private static String line(String id, List<String> columns) {
    String text = String.join("\t", with(List.of(id), columns));
    return text + "\t" + KAFKA_HASH.compared(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  /** Returns what belongs on the line of a vector. */
  private static String recomputeLine(String given) throws Refused {
    List<String> columns = split(given, "\t");
    if (columns.size() < 3) throw new IllegalArgumentException("too few columns");
    Recompute recompute = RECOMPUTE.get(split(columns.get(0), "/").get(0));
    if (recompute == null) throw new IllegalArgumentException("unknown kind of vector");
    return line(columns.get(0), recompute.apply(columns.subList(1, columns.size() - 1)));
  }

  /** Names the first column, the id being 1, in which two lines differ. */
  private static String firstDifference(String printed, String given) {
    List<String> p = split(printed, "\t");
    List<String> g = split(given, "\t");
    if (p.size() != g.size()) return "printed " + p.size() + " columns, given " + g.size();
    int i = 0;
    while (i < p.size() - 1 && p.get(i).equals(g.get(i))) i++;
    return "column " + (i + 1) + ": printed " + p.get(i) + ", given " + g.get(i);
  }

  /** Writes one line, and returns whether it is the given one. */
  private boolean checkLine(String given) {
    String id = split(given, "\t").get(0);
    try {
      String printed = recomputeLine(given);
      output.append(printed).append('\n');
      if (printed.equals(given)) return true;
      complain(id, firstDifference(printed, given));
    } catch (Refused | IllegalArgumentException | ArithmeticException fault) {
      complain(id, "not readable: " + fault.getMessage());
    }
    return false;
  }

  private void check(String input) {
    List<String> lines = split(input, "\n");
    int last = lines.size() - 1;
    if (lines.get(last).isEmpty()) {
      lines = lines.subList(0, last);
    } else {
      complain("last line", "has no end");
    }
    List<String> vectors = lines.isEmpty() ? lines : lines.subList(1, lines.size());
    String first = line("vectors", List.of(Short.toString(FORMAT_VERSION), Integer.toString(vectors.size())));
    output.append(first).append('\n');
    if (lines.isEmpty()) {
      complain("first line", "missing");
    } else if (!lines.get(0).equals(first)) {
      complain("first line", firstDifference(first, lines.get(0)));
    }
    int differ = 0;
    for (String given : vectors) {
      if (!checkLine(given)) differ++;
    }
    KAFKA_HASH.faults.forEach(fault -> complain("murmur2", fault));
    report.append(KAFKA_HASH.summary()).append('\n');
    report.append(vectors.size()).append(" vectors, ").append(differ).append(" differ\n");
  }

  /** Kafka's own murmur2, where kafka-clients (and slf4j-api, which it needs) are on the class path. */
  private static final class KafkaHash {
    private Method theirs;
    private String unavailable = "kafka-clients is not on the class path";
    private int comparisons = 0;
    private final List<String> faults = new ArrayList<>();

    KafkaHash() {
      try {
        Method found = Class.forName("org.apache.kafka.common.utils.Utils").getMethod("murmur2", byte[].class);
        found.invoke(null, (Object) new byte[0]);
        theirs = found;
      } catch (ClassNotFoundException notThere) {
        // Said in the summary, as are the others.
      } catch (ReflectiveOperationException | LinkageError unusable) {
        unavailable = unusable.toString();
      }
    }

    /** Our murmur2, after a look at theirs. */
    int compared(byte[] data) {
      int ours = murmur2(data);
      if (theirs == null) return ours;
      try {
        Object hash = theirs.invoke(null, (Object) data);
        comparisons++;
        if (!hash.equals(ours)) faults.add("of " + hex(data) + ": ours is " + ours + ", Kafka's " + hash);
      } catch (ReflectiveOperationException failed) {
        faults.add("Kafka's failed: " + failed);
      }
      return ours;
    }

    String summary() {
      if (theirs == null) return "murmur2 was not compared with Kafka's: " + unavailable;
      return "murmur2 was compared with Kafka's " + comparisons + " times, " + faults.size() + " differ";
    }
  }

  private static byte[] read(String[] arguments) throws IOException {
    if (arguments.length == 0) return System.in.readAllBytes();
    try (InputStream file = new FileInputStream(arguments[0])) {
      return file.readAllBytes();
    }
  }

  public static void main(String[] arguments) {
    if (arguments.length > 1) {
      System.err.println("usage: MandateVectors [FILE]");
      System.exit(1);
    }
    MandateVectors vectors = new MandateVectors();
    try {
      // ISO 8859-1 makes one character of each byte, so that a wrong byte is a wrong character.
      vectors.check(new String(read(arguments), StandardCharsets.ISO_8859_1));
    } catch (IOException unreadable) {
      System.err.println(unreadable);
      System.exit(1);
    }
    PrintStream standardOutput = System.out;
    byte[] output = vectors.output.toString().getBytes(StandardCharsets.ISO_8859_1);
    standardOutput.write(output, 0, output.length);
    if (standardOutput.checkError()) vectors.complain("standard output", "could not be written");
    System.err.print(vectors.report);
    System.exit(vectors.sound ? 0 : 1);
  }
}
