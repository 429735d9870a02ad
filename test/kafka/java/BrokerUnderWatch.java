import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * A Kafka node that formats its own data folder and does not outlive the process that started it.
 *
 * Arguments: the properties file; the node's folder, deleted when the parent is gone
 * (and the cluster's folder around it, with the last node); then, where the node is to be formatted
 * first, what StorageTool takes. One JVM does both, because starting a second one costs as much as the broker itself.
 * Standard input is the life line: nothing is ever written to it, so its end means that the parent has ended, however
 * that came about.
 */
public final class BrokerUnderWatch {
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    Thread watch = new Thread(() -> endWithParent(folder), "parent-watch");
    watch.setDaemon(true);
    watch.start();
    String[] format = Arrays.copyOfRange(arguments, 2, arguments.length);
    if (format.length > 0) {
      int status = kafka.tools.StorageTool.execute(format, System.out);
      if (status != 0) System.exit(status);
    }
    kafka.Kafka.main(new String[] {arguments[0]});
  }

  private static void endWithParent(Path folder) {
    try {
      while (System.in.read() >= 0) {}
    } catch (IOException ended) {
      // An unreadable life line means the same as its end.
    }
    // The broker may be writing while its files go, so one pass can miss some.
    for (int pass = 0; pass < 3 && Files.exists(folder); pass++) delete(folder);
    try {
      Files.deleteIfExists(folder.getParent());
    } catch (IOException otherNodesRemain) {
      // The last node of the cluster takes it.
    }
    Runtime.getRuntime().halt(0);
  }

  private static void delete(Path folder) {
    List<Path> paths;
    try (Stream<Path> tree = Files.walk(folder)) {
      paths = tree.sorted(Comparator.reverseOrder()).toList();
    } catch (IOException | RuntimeException changedUnderway) {
      return;
    }
    for (Path path : paths) {
      try {
        Files.deleteIfExists(path);
      } catch (IOException refilled) {
        // The next pass takes it.
      }
    }
  }
}
