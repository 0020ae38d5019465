# package: ruby
# needs: /usr/bin/ruby
# ci
# what: 100 threads, queues, condition variables, a child
cat >r.rb <<'R'
q = SizedQueue.new(5)
m = Mutex.new; c = ConditionVariable.new; ready = 0
makers = 50.times.map { |n| Thread.new { 20.times { |i| q << n * 20 + i } } }
takers = 50.times.map { Thread.new { s = 0; 20.times { s += q.pop }; m.synchronize { ready += 1; c.signal }; s } }
m.synchronize { c.wait(m) until ready == 50 }
makers.each(&:join)
puts takers.sum(&:value)
puts `echo child`
t = Thread.new { sleep }; Thread.pass until t.stop?; t.kill; t.join; p t.alive?
trap('USR1') { puts 'handled' }; Process.kill('USR1', $$); sleep 0.1
r, w = IO.pipe; t = Thread.new { r.read }; w << 'piped'; w.close; puts t.value
begin; Timeout rescue nil; require 'timeout'; Timeout.timeout(0.1) { sleep }; rescue Timeout::Error; puts 'timed out'; end
puts Ractor.new { 6 * 7 }.take rescue puts $!
GC.start; puts ObjectSpace.count_objects.key?(:TOTAL)
R
run /usr/bin/ruby -W0 r.rb
