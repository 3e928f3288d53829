import CallBus
import Glibc
import NATSBus
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

/// The server's side of NATS's protocol.
struct FalseProtocol {
  struct Request {
    var subject: String
    var body: JSONValue?
    var reply: String
  }

  /// Subscriptions, by subject.
  private(set) var subscribed: [String: String] = [:]

  /// Reads the commands that have come whole.
  /// - Returns: what a server says at once, and the requests.
  mutating func read(_ unread: inout [UInt8]) -> (said: String, requests: [Request]) {
    var said = ""
    var requests: [Request] = []
    while let end = unread.firstIndex(of: 10) {
      let words = String(decoding: unread[..<end], as: UTF8.self).split(
        whereSeparator: \.isWhitespace
      )
      .map(String.init)
      var used = end + 1
      switch words.first {
      case "PING": said += "PONG\r\n"
      case "SUB": subscribed[words[1]] = words.last
      case "PUB":
        let size = Int(words[words.count - 1]) ?? 0
        guard unread.count >= used + size + 2 else { return (said, requests) }
        let body = JSONValue(parsing: Array(unread[used..<used + size]))
        used += size + 2
        if words.count == 4 {
          requests.append(Request(subject: words[1], body: body, reply: words[2]))
        }
      default: break
      }
      unread.removeFirst(used)
    }
    return (said, requests)
  }

  /// The subscription of an inbox: its own, or one with a wildcard at its end.
  private func subscription(_ inbox: String) -> String {
    let wildcard = inbox.split(separator: ".").dropLast().joined(separator: ".") + ".*"
    return subscribed[inbox] ?? subscribed[wildcard] ?? "0"
  }

  func message(
    _ text: String, subject: String, to inbox: String, origin: String = ""
  ) -> String {
    "MSG \(subject) \(subscription(inbox)) \(origin) \(text.utf8.count)\r\n\(text)\r\n"
  }

  /// A message that has headers alone. The first line is a status.
  func status(_ lines: [String], to inbox: String) -> String {
    let headers = lines.map { $0 + "\r\n" }.joined() + "\r\n"
    let size = headers.utf8.count
    return "HMSG \(inbox) \(subscription(inbox)) \(size) \(size)\r\n\(headers)\r\n"
  }
}
