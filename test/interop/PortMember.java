import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * A member that contends by the rules which the ports of the format share, on Kafka's own Java consumer and producer.
 *
 * One argument, a JSON object: bootstrap, topic, partition, role, memberId, leaseMs, renewMs, staggerMs, commands and writeEveryMs;
 * events on standard output and commands on standard input are JSON lines (fleet-member.ts says which). It mints once per term, as the
 * ports do, and its leases go on naming the minted pair while its epoch rises with each commit on transaction.version 2. It knows
 * nothing of this library: whatever that relies on beside the frozen bytes shows here as a fault.
 */
public final class PortMember {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long LONGEST_POLL_MS = 1_000;
  /** After a lost or refused term, so that two members that both have cause to mint do not fence each other in a tight loop. */
  private static final long PAUSE_MS = 100;

  private final String bootstrap;
  private final String role;
  private final String me;
  private final long leaseMs;
  private final long renewMs;
  private final long staggerMs;
  private final String commands;
  private final long writeEveryMs;
  private final TopicPartition partition;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final KafkaProducer<byte[], byte[]> plain;
  private final Fold fold;
  private final ConcurrentLinkedQueue<JsonNode> asked = new ConcurrentLinkedQueue<>();
  /** Of the role's transactional id; one for each term, made ahead. */
  private KafkaProducer<byte[], byte[]> producer;
  private boolean contends = true;
  private boolean stopped;
  private long registeredAtOffset = -1;
  private long notBefore;
  /** The minted pair of the term that this member leads. */
  private ProducerIdAndEpoch leading;
  private long renewAt;
  private long writeAt;
  private long written;

  private PortMember(JsonNode setup) {
    List<String> addresses = new ArrayList<>();
    setup.get("bootstrap").forEach(address -> addresses.add(address.asText()));
    bootstrap = String.join(",", addresses);
    role = setup.get("role").asText();
    me = setup.get("memberId").asText();
    leaseMs = setup.get("leaseMs").asLong();
    renewMs = setup.get("renewMs").asLong();
    staggerMs = setup.get("staggerMs").asLong();
    commands = setup.path("commands").asText(null);
    writeEveryMs = setup.path("writeEveryMs").asLong(100);
    partition = new TopicPartition(setup.get("topic").asText(), setup.get("partition").asInt());
    fold = new Fold(role);
    Map<String, Object> reading = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
    consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    consumer.assign(List.of(partition));
    consumer.seekToBeginning(List.of(partition));
    ByteArraySerializer bytes = new ByteArraySerializer();
    plain = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), bytes, bytes);
    producer = transactional();
  }

  public static void main(String[] arguments) {
    try {
      PortMember self = new PortMember(JSON.readTree(arguments[0]));
      Thread input = new Thread(self::listen);
      input.setDaemon(true);
      input.start();
      say("ready", Map.of());
      while (!self.stopped) self.turn();
      System.exit(0);
    } catch (Throwable failure) {
      failure.printStackTrace();
      System.exit(1);
    }
  }

  // Input and output

  /** Hands the commands to the member's own thread; the end of the input is a command to stop. */
  private void listen() {
    try {
      BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        asked.add(JSON.readTree(line));
        consumer.wakeup();
      }
    } catch (Exception failure) {
      complain(failure);
    }
    asked.add(JSON.createObjectNode().put("do", "stop"));
    consumer.wakeup();
  }

  private static void say(String event, Map<String, ?> fields) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    line.putAll(fields);
    try {
      System.out.println(JSON.writeValueAsString(line));
    } catch (Exception impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static void complain(Throwable failure) {
    System.err.println(failure);
  }

  private void obey(JsonNode command) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", command.path("id").asLong());
    try {
      answer.put("value", run(command.get("do").asText()));
    } catch (RuntimeException failure) {
      answer.put("error", Map.of("name", root(failure).getClass().getSimpleName(), "message", "" + root(failure).getMessage()));
    }
    if (command.has("id")) say("answer", answer);
  }

  private Object run(String what) {
    switch (what) {
      case "status" -> {
        return status();
      }
      case "resign" -> {
        if (leading == null) throw new IllegalStateException("it does not lead");
        String token = text(leading);
        try {
          transact(new ProducerRecord<>(partition.topic(), partition.partition(), leaseKey(), null));
        } catch (RuntimeException failure) {
          lose(failure);
          throw failure;
        }
        leading = null;
        contends = false;
        renewProducer();
        say("resigned", Map.of("token", token, "at", System.currentTimeMillis()));
        return "resigned";
      }
      case "contend" -> {
        contends = true;
        return null;
      }
      case "stop" -> {
        stopped = true;
        return null;
      }
      default -> throw new IllegalArgumentException("No such command: " + what);
    }
  }

  private Map<String, Object> status() {
    Map<String, Object> status = new LinkedHashMap<>();
    Lease lease = fold.lease;
    status.put("holder", lease == null ? null : lease.holder);
    status.put("token", lease == null ? null : lease.token);
    status.put("term", lease == null ? null : Long.toString(lease.term));
    status.put("deadline", lease == null ? null : Long.toString(lease.deadline));
    List<Object> roster = new ArrayList<>();
    for (Registered registered : fold.inOrder()) {
      Map<String, Object> entry = new LinkedHashMap<>();
      int rank = fold.waiting().indexOf(registered);
      entry.put("memberId", registered.member);
      entry.put("offset", Long.toString(registered.offset));
      entry.put("rank", rank < 0 ? null : rank);
      roster.add(entry);
    }
    status.put("roster", roster);
    return status;
  }

  // Following and deciding

  /** One turn: commands, what the partition has to tell, and at most one act. */
  private void turn() {
    try {
      for (JsonNode command = asked.poll(); command != null; command = asked.poll()) obey(command);
      if (stopped) return;
      follow(Math.max(0, Math.min(untilAct(), LONGEST_POLL_MS)));
      if (untilAct() > 0) return;
      if (leading == null) {
        readToEnd();
        if (untilAct() > 0) return;
      }
      act();
    } catch (WakeupException aCommandCame) {
      // The next turn takes it.
    } catch (KafkaException failure) {
      complain(failure);
    }
  }

  private void follow(long waitMs) {
    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(waitMs))) fold.apply(record);
  }

  /** To the last stable offset of now; an empty poll ends nothing. */
  private void readToEnd() {
    long end = consumer.endOffsets(List.of(partition)).get(partition);
    while (consumer.position(partition) < end) follow(LONGEST_POLL_MS);
  }

  /** Milliseconds until there is something to do by what is known now; zero or less is at once. */
  private long untilAct() {
    long now = System.currentTimeMillis();
    if (wantsRegistration()) return notBefore - now;
    if (leading != null) return Math.min(renewAt, commands == null ? Long.MAX_VALUE : writeAt) - now;
    Registered own = fold.registrations.get(me);
    // Its registration is written and not read yet.
    if (!contends || own == null) return LONGEST_POLL_MS;
    return Math.max(slot(own), notBefore) - now;
  }

  /** A member registers only if the roster lacks it: at first, and when its registration was deleted. */
  private boolean wantsRegistration() {
    if (!contends && leading == null || fold.registrations.containsKey(me)) return false;
    return registeredAtOffset < 0 || registeredAtOffset < consumer.position(partition);
  }

  /** The instant from which it may mint, by its wall clock. */
  private long slot(Registered own) {
    Lease lease = fold.lease;
    // Live, it is taken back at once; expired, its holder is the first.
    if (lease != null && lease.holder.equals(me)) return 0;
    int rank = fold.waiting().indexOf(own);
    return (lease == null ? own.registeredAt : lease.deadline) + rank * staggerMs;
  }

  private void act() {
    if (wantsRegistration()) register();
    else if (leading == null) acquire();
    else if (System.currentTimeMillis() >= renewAt) guarded(this::writeLease);
    else guarded(this::writeCommand);
  }

  private void register() {
    byte[] name = utf8(me);
    ByteBuffer value = ByteBuffer.allocate(12 + name.length).putShort((short) 0).putShort((short) name.length).put(name);
    value.putLong(System.currentTimeMillis());
    try {
      registeredAtOffset = plain.send(toPartition(key((short) 0, me), value.array())).get().offset();
      say("registered", Map.of("offset", Long.toString(registeredAtOffset)));
    } catch (ExecutionException | InterruptedException failure) {
      notBefore = System.currentTimeMillis() + PAUSE_MS;
      complain(root(failure));
    }
  }

  // Leading

  private void acquire() {
    try {
      producer.initTransactions();
      leading = pair();
      writeLease();
    } catch (KafkaException failure) {
      leading = null;
      complain(root(failure));
      pauseWithNewProducer();
      return;
    }
    written = 0;
    writeAt = System.currentTimeMillis();
    say("leading", Map.of("token", text(leading), "at", writeAt));
  }

  private void guarded(Runnable write) {
    try {
      write.run();
    } catch (KafkaException failure) {
      lose(failure);
    }
  }

  private void lose(RuntimeException reason) {
    String token = text(leading);
    leading = null;
    say("lost", Map.of("token", token, "reason", root(reason).getClass().getSimpleName()));
    pauseWithNewProducer();
  }

  private void pauseWithNewProducer() {
    renewProducer();
    notBefore = System.currentTimeMillis() + PAUSE_MS;
  }

  private void writeLease() {
    byte[] name = utf8(me);
    long now = System.currentTimeMillis();
    ByteBuffer value = ByteBuffer.allocate(30 + name.length).putShort((short) 0).putShort((short) name.length).put(name);
    value.putLong(leading.producerId).putShort(leading.epoch).putLong(now).putLong(now + leaseMs);
    transact(toPartition(leaseKey(), value.array()));
    renewAt = now + renewMs;
  }

  private void writeCommand() {
    long n = written + 1;
    Map<String, Object> value = new LinkedHashMap<>(Map.of("member", me, "token", text(leading), "n", n));
    try {
      transact(new ProducerRecord<>(commands, 0, utf8(me), JSON.writeValueAsBytes(value)));
    } catch (java.io.IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    written = n;
    writeAt = System.currentTimeMillis() + writeEveryMs;
    say("wrote", Map.of("n", n, "token", text(leading)));
  }

  /** One record in a transaction of its own. A commit without an answer is asked again until the lease is over. */
  private void transact(ProducerRecord<byte[], byte[]> record) {
    long giveUpAt = System.currentTimeMillis() + leaseMs;
    producer.beginTransaction();
    producer.send(record);
    for (;;) {
      try {
        producer.commitTransaction();
        return;
      } catch (TimeoutException unanswered) {
        complain(unanswered);
        if (System.currentTimeMillis() >= giveUpAt) throw unanswered;
      }
    }
  }

  private KafkaProducer<byte[], byte[]> transactional() {
    ByteArraySerializer bytes = new ByteArraySerializer();
    Map<String, Object> options = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", role));
    options.put("transaction.timeout.ms", (int) leaseMs);
    options.put("max.block.ms", 10_000);
    return new KafkaProducer<>(options, bytes, bytes);
  }

  private void renewProducer() {
    producer.close(Duration.ZERO);
    producer = transactional();
  }

  /** The producer's own pair, which it tells nobody. */
  private ProducerIdAndEpoch pair() {
    try {
      Field manager = KafkaProducer.class.getDeclaredField("transactionManager");
      manager.setAccessible(true);
      Method current = manager.getType().getDeclaredMethod("producerIdAndEpoch");
      current.setAccessible(true);
      return (ProducerIdAndEpoch) current.invoke(manager.get(producer));
    } catch (ReflectiveOperationException otherClient) {
      throw new IllegalStateException(otherClient);
    }
  }

  private static Throwable root(Throwable failure) {
    return failure.getCause() == null ? failure : root(failure.getCause());
  }

  private static String text(ProducerIdAndEpoch pair) {
    return pair.producerId + ":" + pair.epoch;
  }

  // The frozen bytes

  private ProducerRecord<byte[], byte[]> toPartition(byte[] key, byte[] value) {
    return new ProducerRecord<>(partition.topic(), partition.partition(), key, value);
  }

  private byte[] leaseKey() {
    return key((short) 1, "");
  }

  private byte[] key(short kind, String ofMember) {
    byte[] roleName = utf8(role);
    byte[] memberName = utf8(ofMember);
    ByteBuffer key = ByteBuffer.allocate(8 + roleName.length + memberName.length).putShort((short) 0).putShort(kind);
    return key.putShort((short) roleName.length).put(roleName).putShort((short) memberName.length).put(memberName).array();
  }

  private static byte[] utf8(String text) {
    return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
  }

  private record Registered(String member, long offset, long registeredAt) {}

  private record Lease(String holder, String token, long deadline, long term) {}

  /** What committed records say of the role: per key the last one counts. */
  private static final class Fold {
    private final String role;
    private final Map<String, Registered> registrations = new HashMap<>();
    private Lease lease;

    private Fold(String role) {
      this.role = role;
    }

    /** A record that does not decode, or is of another role, changes nothing. Headers are not looked at. */
    private void apply(ConsumerRecord<byte[], byte[]> record) {
      try {
        ByteBuffer key = ByteBuffer.wrap(record.key());
        if (key.getShort() != 0) return;
        short kind = key.getShort();
        if (!string(key).equals(role)) return;
        String member = string(key);
        byte[] bytes = record.value();
        ByteBuffer value = bytes == null || bytes.length == 0 ? null : ByteBuffer.wrap(bytes);
        if (value != null && value.getShort() != 0) return;
        if (kind == 0) register(member, value, record.offset());
        else if (kind == 1) lease(value, record.offset());
      } catch (BufferUnderflowException | NullPointerException undecodable) {
        complain(undecodable);
      }
    }

    private void register(String member, ByteBuffer value, long offset) {
      if (value == null) {
        registrations.remove(member);
        return;
      }
      string(value);
      registrations.put(member, new Registered(member, offset, value.getLong()));
    }

    private void lease(ByteBuffer value, long offset) {
      if (value == null) {
        lease = null;
        return;
      }
      String holder = string(value);
      String token = value.getLong() + ":" + value.getShort();
      value.getLong();
      long term = lease != null && Objects.equals(lease.token, token) ? lease.term : offset;
      lease = new Lease(holder, token, value.getLong(), term);
    }

    private List<Registered> inOrder() {
      List<Registered> all = new ArrayList<>(registrations.values());
      all.sort(Comparator.comparingLong(Registered::offset));
      return all;
    }

    /** Without the holder; the index is the rank. */
    private List<Registered> waiting() {
      List<Registered> all = inOrder();
      all.removeIf(registered -> lease != null && registered.member.equals(lease.holder));
      return all;
    }

    private static String string(ByteBuffer from) {
      byte[] bytes = new byte[from.getShort()];
      from.get(bytes);
      return new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }
  }
}
