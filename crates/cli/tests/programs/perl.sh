# package: perl
# needs: /usr/bin/perl
# ci
# what: threads, shared variables, queues
cat >p.pl <<'P'
use strict; use threads; use threads::shared; use Thread::Queue;
my $sum :shared = 0; my $q = Thread::Queue->new;
my @t = map { threads->create(sub { while (defined(my $x = $q->dequeue)) { lock $sum; $sum += $x } $_[0] * 2 }, $_) } 1..8;
$q->enqueue($_) for 1..500; $q->end;
print join(',', map { $_->join } @t), " $sum\n";
my @l :shared; my $c :shared = 0;
my $w = threads->create(sub { lock $c; cond_wait($c) until $c; 'woken' });
{ lock $c; $c = 1; cond_broadcast($c) } print $w->join, "\n";
print `echo child`; $SIG{USR1} = sub { print "handled\n" }; kill USR1 => $$;
P
run /usr/bin/perl p.pl
