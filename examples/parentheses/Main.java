import java.util.ArrayDeque;
import java.util.Scanner;

/** Says for each line whether its brackets match. */
public class Main {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            System.out.println(matches(in.nextLine()) ? "yes" : "no");
        }
    }

    private static boolean matches(String line) {
        ArrayDeque<Character> open = new ArrayDeque<>();
        for (char c : line.toCharArray()) {
            int closing = ")]}".indexOf(c);
            if ("([{".indexOf(c) >= 0) {
                open.push(c);
            } else if (closing >= 0 && (open.isEmpty() || open.pop() != "([{".charAt(closing))) {
                return false;
            }
        }
        return open.isEmpty();
    }
}
