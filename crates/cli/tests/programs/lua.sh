# package: lua5.4
# needs: /usr/bin/lua5.4
# threads=none
# what: coroutines
run lua5.4 -e 'local s=0 for i=1,1000 do local c=coroutine.wrap(function() for k=1,10 do coroutine.yield(k) end end) for k=1,10 do s=s+c() end end print(s)'
