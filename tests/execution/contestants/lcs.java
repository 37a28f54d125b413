import java.util.*;

public class Main
{
	static int[][] memo;
	static String a, b;

	static int go(int i, int j)
	{
		if (i == a.length() || j == b.length())
			return 0;
		if (memo[i][j] != -1)
			return memo[i][j];
		int best = Math.max(go(i + 1, j), go(i, j + 1));
		if (a.charAt(i) == b.charAt(j))
			best = Math.max(best, 1 + go(i + 1, j + 1));
		return memo[i][j] = best;
	}

	public static void main (String[] args) throws java.lang.Exception
	{
		Scanner sc = new Scanner(System.in);
		a = sc.nextLine();
		b = sc.nextLine();
		memo = new int[a.length()][b.length()];
		for (int[] row : memo)
			Arrays.fill(row, -1);
		System.out.println(go(0, 0));
	}
}
/* cases
wrong: 1 + go(i + 1, j + 1) >>> 1 + go(i + 1, j)
case: AGGTAB|GXTXAYB => 4
case: the cat|a hat => 3
*/
