# package: swi-prolog-nox
# needs: /usr/bin/swipl
# what: threads with message queues, concurrent maps, a mutex
cat >s.pl <<'X'
fib(0, 0). fib(1, 1).
fib(N, F) :- N > 1, A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.
main :- numlist(1, 18, L), concurrent_maplist([X, Y]>>fib(X, Y), L, R), sum_list(R, S), writeln(S),
    findall(T, (between(1, 20, I), thread_create((thread_get_message(go(V)), W is V * I, thread_exit(W)), T)), Ts),
    forall(member(T, Ts), thread_send_message(T, go(3))),
    maplist([T, V]>>(thread_join(T, exited(V))), Ts, Vs), sum_list(Vs, VS), writeln(VS),
    concurrent(4, [X1 = 1, X2 = 2, X3 = 3], []), writeln([X1, X2, X3]),
    mutex_create(M), with_mutex(M, writeln(in)), garbage_collect_atoms, halt.
X
run swipl -g main s.pl
