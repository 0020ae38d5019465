# package: perl
# needs: /usr/bin/prove /usr/share/perl/5.36/Thread
# seconds=200
# what: what Thread::Queue, Semaphore and threads promise: a script after their manuals
cat >t.t <<'P'
use strict; use threads; use threads::shared; use Thread::Semaphore; use Thread::Queue; use Test::More tests => 5;
my $s = Thread::Semaphore->new(0); my $n :shared = 0;
my @t = map { threads->create(sub { $s->down; lock $n; $n++ }) } 1..20; $s->up(20); $_->join for @t; is $n, 20;
my $t = threads->create({context => 'list'}, sub { return (1, 2, 3) }); is_deeply [$t->join], [1, 2, 3];
$t = threads->create(sub { die "x\n" }); { local $SIG{__WARN__} = sub {}; $t->join } like $t->error, qr/x/;
my $q = Thread::Queue->new(1..10); is_deeply [$q->extract(2, 3)], [3, 4, 5]; is $q->dequeue_timed(0.1), 1;
P
run /usr/bin/perl t.t 2>/dev/null
