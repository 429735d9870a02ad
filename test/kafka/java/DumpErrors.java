import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints every error code that kafka-clients knows as a JSON array, one code a line, in ascending order. */
public final class DumpErrors {
  public static void main(String[] arguments) {
    StringBuilder json = new StringBuilder("[\n");
    Errors[] all = Errors.values().clone();
    java.util.Arrays.sort(all, java.util.Comparator.comparingInt(Errors::code));
    for (int index = 0; index < all.length; index++) {
      Errors error = all[index];
      json.append(String.format(
          "  { \"code\": %d, \"name\": %s, \"retriable\": %b, \"message\": %s }%s%n",
          error.code(),
          quoted(error.name()),
          error.exception() instanceof RetriableException,
          error.exception() == null ? "null" : quoted(error.message()),
          index == all.length - 1 ? "" : ","));
    }
    System.out.print(json.append("]\n"));
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char character : text.toCharArray()) {
      if (character == '"' || character == '\\') quoted.append('\\').append(character);
      else if (character < ' ') quoted.append(String.format("\\u%04x", (int) character));
      else quoted.append(character);
    }
    return quoted.append('"').toString();
  }
}
