"""packets.py SOCKET WORD...: sends each word as a packet to a seqpacket socket, prints what comes back."""
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
    client.connect(sys.argv[1])
    for word in sys.argv[2:]:
        client.send(word.encode())
        print(client.recv(65536).decode())
