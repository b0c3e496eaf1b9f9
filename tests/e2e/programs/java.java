// Does what the first word of its input says.
import java.util.ArrayList;
import java.util.Scanner;

public class Main {
    public static void main(String[] arguments) throws Exception {
        Scanner input = new Scanner(System.in);
        switch (input.next()) {
            case "sum" -> System.out.println(input.nextInt() + input.nextInt());
            case "exit" -> System.exit(input.nextInt());
            case "signal" -> {
                String kill = "kill -KILL " + ProcessHandle.current().pid();
                new ProcessBuilder("sh", "-c", kill).start().waitFor();
                Thread.sleep(60_000);
            }
            case "spin" -> {
                for (long i = 0; ; i++) {}
            }
            case "sleep" -> Thread.sleep(60_000);
            case "memory" -> {
                var held = new ArrayList<byte[]>();
                for (;;) held.add(new byte[1 << 20]);
            }
            case "flood" -> {
                for (;;) System.out.println("flood".repeat(1000));
            }
        }
    }
}
