import CallBus
import CallCore
import CallProcesses
import Glibc
import NATSBus
import Testing

extension NATSOptions {
  /// A bench of a cluster of four shards.
  static func test(_ events: Inbox<NATSEvent>? = nil) -> NATSOptions {
    var options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4))
    if let events { options.onEvent = { events.offer($0) } }
    return options
  }
}

extension NATSBus {
  static func test(_ url: String, _ events: Inbox<NATSEvent>? = nil) async throws -> NATSBus {
    try await connect(url: url, name: "test", options: .test(events))
  }
}

/// Starts a nats-server, and connects to it for as long as the body takes.
@inline(never)
func withServer(
  program: String? = nil, arguments: [String] = [], _ events: Inbox<NATSEvent>? = nil,
  _ body: (NATSServerProcess, NATSBus) async throws -> Void
) async throws {
  let server = try await NATSServerProcess.start(program: program, arguments: arguments)
  defer { server.stop() }
  let bus = try await NATSBus.test(server.url, events)
  try await body(server, bus)
  await bus.close()
}

extension Inbox where Element == NATSEvent {
  /// Waits for an event that fits; returns it and those before it.
  @discardableResult
  func until(_ fits: (NATSEvent) -> Bool) async throws -> [NATSEvent] {
    var seen: [NATSEvent] = []
    while !seen.contains(where: fits) {
      let batch = await next(until: .now + .seconds(60))
      try #require(!batch.isEmpty, "only \(seen) came")
      seen += batch
    }
    return seen
  }

  func until(_ event: NATSEvent) async throws { try await until { $0 == event } }
}

extension AppendResult {
  /// Why nothing is known of a write; nil where something is.
  var doubt: String? { if case .unknown(let text) = self { text } else { nil } }
}

extension WorkQueue {
  func add(_ lane: String, _ id: String, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { done in
      add(lane: lane, id: id, bytes) { done.resume(returning: $0) }
    }
  }
}

/// A socket that listens at a port of the loopback.
func listenOnLoopback() throws -> (listener: Int32, port: UInt16) {
  let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  var size = socklen_t(MemoryLayout<sockaddr_in>.size)
  var address = loopback(port: 0)
  let isBound = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(listener, $0, size) == 0 && listen(listener, 8) == 0
        && getsockname(listener, $0, &size) == 0
    }
  }
  try #require(isBound)
  return (listener, UInt16(bigEndian: address.sin_port))
}

func loopback(port: UInt16) -> sockaddr_in {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = port.bigEndian
  address.sin_addr.s_addr = inet_addr("127.0.0.1")
  return address
}
