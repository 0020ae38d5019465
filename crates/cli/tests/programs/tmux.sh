# package: tmux
# needs: /usr/bin/tmux
# threads=none
# what: a session that is written to
run tmux -L "t$$" -f /dev/null new-session -d -x 80 -y 24 'echo in the session; sleep 30'
until_true sh -c "tmux -L t$$ capture-pane -p | grep -q session"
tmux -L "t$$" capture-pane -p | head -1
tmux -L "t$$" kill-server
