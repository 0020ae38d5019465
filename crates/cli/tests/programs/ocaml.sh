# package: ocaml-nox
# needs: /usr/bin/ocamlopt
# what: threads under the master lock, conditions, channels of events, a fork
cat >t.ml <<'O'
let () =
  let m = Mutex.create () and c = Condition.create () and n = ref 0 in
  let work i () =
    for _ = 1 to 1000 do Mutex.lock m; incr n; Mutex.unlock m; if i mod 3 = 0 then Thread.yield () done;
    Mutex.lock m; Condition.broadcast c; Mutex.unlock m in
  let threads = List.init 20 (fun i -> Thread.create (work i) ()) in
  Mutex.lock m; while !n < 20000 do Condition.wait c m done; Mutex.unlock m;
  List.iter Thread.join threads;
  let e = Event.new_channel () in
  let senders = List.init 10 (fun i -> Thread.create (fun () -> Event.sync (Event.send e i)) ()) in
  Printf.printf "%d %d\n%!" !n (List.fold_left (fun a _ -> a + Event.sync (Event.receive e)) 0 senders);
  let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2) in
  let computing = List.init 4 (fun i -> Thread.create (fun () -> if fib 27 <> 196418 then print_endline "wrong") ()) in
  List.iter Thread.join computing;
  (match Unix.fork () with 0 -> print_endline "child"; exit 0 | p -> ignore (Unix.waitpid [] p));
  print_endline "end"
O
ocamlopt -I +threads unix.cmxa threads.cmxa t.ml -o t 2>/dev/null
run ./t
