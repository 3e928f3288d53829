import CallEdge
import CallNodeKit
import Foundation
import Testing

/// `/metrics`, `/readyz` and `/healthz`, and what whoever reaches them may take.
@Suite(.timeLimit(.minutes(1))) struct OperatorsPortTests {
  @Test func readinessIsJSON() throws {
    struct Answer: Decodable, Equatable {
      var ready: Bool
      var missing: [String]
      var shardsWithoutOwner: [Int]
    }
    func decoded(_ answer: ProbeAnswer) throws -> Answer {
      try JSONDecoder().decode(Answer.self, from: Data(answer.text.utf8))
    }
    let ready = ProbeAnswer.readiness(Readiness())
    #expect(ready.retryAfter == nil)
    #expect(try decoded(ready) == Answer(ready: true, missing: [], shardsWithoutOwner: []))
    let not = ProbeAnswer.readiness(
      Readiness(missing: [#"a "word""#, "another"], shardsWithoutOwner: [3, 5]))
    #expect(not.retryAfter == 1)
    #expect(
      try decoded(not)
        == Answer(ready: false, missing: [#"a "word""#, "another"], shardsWithoutOwner: [3, 5]))
  }

  private let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

  private func withPort(_ body: (Int) async throws -> Void) async throws {
    let listener = ProbeListener(host: "127.0.0.1", port: 0) { _, _ in .alive }
    try await body(try #require(try await listener.boundPort))
    await listener.close()
  }

  @Test func furtherConnectionsAreClosed() async throws {
    try await withPort { port in
      let silent = try (0..<ProbeListener.connectionsMax).map { _ in try Socket(port) }
      // Each is accepted before the next one.
      #expect(try await Socket(port).ask(request) == "")
      for socket in silent { socket.end() }
      // The listener hears of their ends in its own time.
      while try await Socket(port).ask(request) == "" {}
    }
  }

  @Test func oneRequestAConnection() async throws {
    try await withPort { port in
      let answer = try await Socket(port).ask(request + request)
      #expect(answer.components(separatedBy: "HTTP/1.1 200").count == 2, "\(answer)")
    }
  }

  @Test func theDefaultIsLoopbackAndNothing() throws {
    for role in NodeRoles.allCases {
      let node = try node(["pushProviders": "p", "host": "0.0.0.0"], for: role)
      #expect(node.metricsPort == 0 && node.metricsHost == "127.0.0.1")
    }
  }
}

/// A blocking connection to the loopback.
private final class Socket: Sendable {
  private let descriptor: Int32

  init(_ port: Int) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    let descriptor = descriptor
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(result == 0)
  }

  deinit { _ = close(descriptor) }

  func end() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// Sends a request, and returns all that comes until the other side closes.
  func ask(_ request: String) async throws -> String {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread { [self] in
        _ = send(descriptor, request, request.utf8.count, Int32(MSG_NOSIGNAL))
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
          let count = recv(descriptor, &buffer, buffer.count, 0)
          if count <= 0 { break }
          answer += buffer[..<count]
        }
        continuation.resume(returning: String(decoding: answer, as: UTF8.self))
      }
    }
  }
}
