package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
)

// serveEcho is an echo server with a goroutine for each connection. It prints "port N" and serves until it is killed.
func serveEcho(words []string) error {
	if len(words) > 0 {
		if n, err := strconv.Atoi(words[0]); err == nil && n > 0 {
			runtime.GOMAXPROCS(n)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "port %d\n", listener.Addr().(*net.TCPAddr).Port)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		// Go sets TCP_NODELAY by itself.
		go echo(connection)
	}
}

func echo(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 1024)
	for {
		n, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err := connection.Write(buffer[:n]); err != nil {
			return
		}
	}
}
