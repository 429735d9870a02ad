import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * A member as other ports of the format make one: Kafka's own Java producer under the role's transactional id, told what to do in JSON lines.
 *
 * Arguments: bootstrap servers, role, member id. On a cluster of transaction.version 2 its epoch rises with each transaction, and its
 * leases go on naming the pair that it minted. It contends by no rules of its own: the test decides.
 */
public final class JavaMember {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final KafkaProducer<byte[], byte[]> producer;
  private final KafkaProducer<byte[], byte[]> plain;
  private final String role;
  private final String member;
  private ProducerIdAndEpoch minted;

  private JavaMember(String bootstrap, String role, String member) {
    this.role = role;
    this.member = member;
    ByteArraySerializer bytes = new ByteArraySerializer();
    plain = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), bytes, bytes);
    producer = new KafkaProducer<>(
        Map.of("bootstrap.servers", bootstrap, "transactional.id", role, "max.block.ms", 10_000), bytes, bytes);
  }

  public static void main(String[] arguments) throws Exception {
    JavaMember self = new JavaMember(arguments[0], arguments[1], arguments[2]);
    System.out.println("{\"event\":\"ready\"}");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode command = JSON.readTree(line);
      Map<String, Object> answer = new LinkedHashMap<>(Map.of("event", "answer", "id", command.get("id").asInt()));
      try {
        answer.put("value", self.run(command));
      } catch (Exception failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        answer.put("error", Map.of("name", cause.getClass().getSimpleName(), "message", "" + cause.getMessage()));
      }
      System.out.println(JSON.writeValueAsString(answer));
    }
    self.plain.close();
    self.producer.close(java.time.Duration.ZERO);
  }

  /** Does one command; what it answers is a token ("producerId:epoch"), an offset, or nothing. */
  private Object run(JsonNode command) throws Exception {
    switch (command.get("do").asText()) {
      case "init" -> {
        producer.initTransactions();
        minted = pair();
        return text(minted);
      }
      case "token" -> {
        return text(pair());
      }
      case "begin" -> producer.beginTransaction();
      case "send" -> {
        return send(producer, command, command.get("key").asText().getBytes("UTF-8"), command.get("value").asText().getBytes("UTF-8"));
      }
      case "register" -> {
        byte[] name = member.getBytes("UTF-8");
        ByteBuffer value = ByteBuffer.allocate(12 + name.length).putShort((short) 0).putShort((short) name.length).put(name);
        return send(plain, command, key((short) 0, member), value.putLong(System.currentTimeMillis()).array());
      }
      case "lease" -> {
        byte[] name = member.getBytes("UTF-8");
        long now = System.currentTimeMillis();
        ByteBuffer value = ByteBuffer.allocate(30 + name.length).putShort((short) 0).putShort((short) name.length).put(name);
        value.putLong(minted.producerId).putShort(minted.epoch).putLong(now).putLong(now + command.get("leaseMs").asLong());
        return send(producer, command, key((short) 1, ""), value.array());
      }
      case "resign" -> {
        return send(producer, command, key((short) 1, ""), null);
      }
      case "commit" -> producer.commitTransaction();
      case "abort" -> producer.abortTransaction();
      default -> throw new IllegalArgumentException("No such command: " + command);
    }
    return null;
  }

  private long send(KafkaProducer<byte[], byte[]> by, JsonNode to, byte[] key, byte[] value) throws Exception {
    return by.send(new ProducerRecord<>(to.get("topic").asText(), to.path("partition").asInt(0), key, value)).get().offset();
  }

  private byte[] key(short kind, String ofMember) throws Exception {
    byte[] roleName = role.getBytes("UTF-8");
    byte[] memberName = ofMember.getBytes("UTF-8");
    ByteBuffer key = ByteBuffer.allocate(8 + roleName.length + memberName.length).putShort((short) 0).putShort(kind);
    return key.putShort((short) roleName.length).put(roleName).putShort((short) memberName.length).put(memberName).array();
  }

  /** The producer's own pair, which it tells nobody. */
  private ProducerIdAndEpoch pair() throws Exception {
    Field manager = KafkaProducer.class.getDeclaredField("transactionManager");
    manager.setAccessible(true);
    Method current = manager.getType().getDeclaredMethod("producerIdAndEpoch");
    current.setAccessible(true);
    return (ProducerIdAndEpoch) current.invoke(manager.get(producer));
  }

  private static String text(ProducerIdAndEpoch pair) {
    return pair.producerId + ":" + pair.epoch;
  }
}
