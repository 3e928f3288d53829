import CallBus
import Glibc
import Synchronization
import Testing

/// Greets like a nats-server, and keeps what clients say to it.
final class FalseServer: Sendable {
  private let listener: Int32
  private let greeting: [UInt8]
  private let heard = Mutex<[UInt8]>([])
  private let sockets = Mutex<[Int32]>([])
  private let accepted = Mutex(0)
  private let script: Script?
  let port: UInt16
  var url: String { "nats://127.0.0.1:\(port)" }

  /// Takes the complete commands from the bytes of a client, and returns what the server says.
  typealias Script = @Sendable (inout [UInt8]) -> [UInt8]

  /// - Parameters:
  ///   - fields: what its greeting says beside the usual, as JSON.
  ///   - greets: false: it never says a word by itself.
  ///   - answers: whether it answers as if it took the client.
  ///   - script: answers in its place.
  init(
    _ fields: String = "", greets: Bool = true, answers: Bool = true, script: Script? = nil
  ) throws {
    self.script = script
    let text = """
      INFO {"server_id":"FALSE","version":"2.9.10","proto":1,"host":"127.0.0.1","port":4222,\
      "headers":true,"max_payload":1048576\(fields.isEmpty ? "" : "," + fields)}\r\n
      """
    greeting = greets ? Array(text.utf8) : []
    (listener, port) = try listenOnLoopback()
    startThread(named: "false-server") { [self] in
      while case let client = accept(listener, nil, nil), client >= 0 {
        accepted.withLock { $0 += 1 }
        sockets.withLock { $0.append(client) }
        startThread(named: "false-server") { [self] in serve(client, answers) }
      }
    }
  }

  deinit { for socket in sockets.withLock({ $0 }) + [listener] { close(socket) } }

  /// All bytes that came, of all connections.
  var text: String { heard.withLock { String(decoding: $0, as: UTF8.self) } }
  /// How many connected.
  var clients: Int { accepted.withLock { $0 } }

  func stop() {
    shutdown(listener, Int32(SHUT_RDWR))
    for socket in sockets.withLock({ $0 }) { shutdown(socket, Int32(SHUT_RDWR)) }
  }

  /// Says this to everybody.
  func say(_ text: String) {
    var bytes = Array(text.utf8)
    for socket in sockets.withLock({ $0 }) {
      send(socket, &bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
  }

  private func serve(_ client: Int32, _ answers: Bool) {
    var greeting = greeting
    send(client, &greeting, greeting.count, Int32(MSG_NOSIGNAL))
    var buffer = [UInt8](repeating: 0, count: 4096)
    var unread: [UInt8] = []
    while case let count = recv(client, &buffer, buffer.count, 0), count > 0 {
      heard.withLock { $0 += buffer[..<count] }
      unread += buffer[..<count]
      var said = script?(&unread) ?? (answers ? Array("PONG\r\n".utf8) : [])
      send(client, &said, said.count, Int32(MSG_NOSIGNAL))
    }
    shutdown(client, Int32(SHUT_RDWR))
  }
}
