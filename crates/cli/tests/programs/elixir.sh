# package: elixir
# needs: /usr/bin/elixir
# what: 200 tasks, 1,000 processes, a child
cat >e.exs <<'X'
squares = Task.async_stream(1..200, fn x -> Process.sleep(1); x * x end, max_concurrency: 50)
IO.puts(Enum.sum(Enum.map(squares, fn {:ok, v} -> v end)))
{out, 0} = System.cmd("echo", ["a child"])
IO.write(out)
pids = for i <- 1..1000, do: spawn(fn -> receive do {p, n} -> send(p, n + i) end end)
Enum.each(pids, &send(&1, {self(), 1}))
IO.puts(Enum.sum(for _ <- pids, do: (receive do x -> x end)))
X
run elixir e.exs
