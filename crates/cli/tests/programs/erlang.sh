# package: erlang-base
# needs: /usr/bin/erl
# what: 1,000 processes on 4 schedulers
erl=$(echo /usr/lib/erlang/erts-*/bin)
BINDIR=$erl ROOTDIR=/usr/lib/erlang EMU=beam PROGNAME=erl run "$erl/erlexec" +S 4 -noshell -eval 'P=self(), [spawn(fun() -> P ! {x, lists:sum(lists:seq(1,N))} end) || N <- lists:seq(1,1000)], F=fun F(0,S)->S; F(K,S)-> receive {x,V}->F(K-1,S+V) end end, io:format("~p~n",[F(1000,0)]), {ok,B}=file:read_file("/etc/hostname"), io:format("~p~n",[byte_size(B)>0]), halt().'
