# A threaded server of the standard library and a hundred clients, each a thread. Prints how many answers were right.
import socket, socketserver, sys, threading

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1000):
            self.request.sendall(data)

class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 200
    daemon_threads = False

with Server(("127.0.0.1", 0), Echo) as server:
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    right = 0
    lock = threading.Lock()
    def client(number):
        global right
        with socket.create_connection(server.server_address, timeout=60) as connection:
            for i in range(10):
                text = f"{number} {i}".encode() * 50
                connection.sendall(text)
                got = b""
                while len(got) < len(text):
                    got += connection.recv(1000)
                with lock:
                    right += got == text
    clients = [threading.Thread(target=client, args=(n,)) for n in range(100)]
    [c.start() for c in clients]
    [c.join() for c in clients]
    server.shutdown()
    serving.join()
print(right)
