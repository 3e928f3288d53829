import CallCore
import CallEdge
import CallTestKit
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// The client of hooks against real servers.
@Suite struct HookClientTests {
  private static let answer = #"{"action":"allow"}"#

  private func ask(
    _ url: String, within: Span = .seconds(30), client: HookHTTPClient? = nil
  ) async throws -> Result<[UInt8], HookFailure> {
    let used = client ?? HookHTTPClient()
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let reply = try await used.post(
      url, headers: [("webhook-id", "call_1")], body: Array("{}".utf8), within: within, on: loop
    ).map {
      loop.preconditionInEventLoop()
      return $0
    }.get()
    if client == nil { await used.close() }
    return reply
  }

  private func ask(
    _ reply: SimulatedReply, within: Span = .seconds(30)
  ) async throws -> Result<[UInt8], HookFailure> {
    let server = try await SimulatedHTTPServer.start(authority: nil) { _ in reply }
    let result = try await ask(server.origin + "/hook?a=b", within: within)
    await server.stop()
    return result
  }

  @Test func asksAndReads() async throws {
    let seen = Mutex<[SimulatedRequest]>([])
    let server = try await SimulatedHTTPServer.start(authority: nil) { request in
      seen.withLock { $0.append(request) }
      return .answer(status: 200, body: Self.answer)
    }
    let client = HookHTTPClient()
    // A connection that has answered is free at once, since a client is on one event loop.
    for _ in 0..<100 {
      #expect(
        try await ask(server.origin + "/hook?a=b", client: client)
          == .success(Array(Self.answer.utf8)))
    }
    let requests = seen.withLock { $0 }
    #expect(requests.count == 100 && server.connectionCount == 1)
    for request in requests {
      #expect(request.method == "POST" && request.target == "/hook?a=b")
      #expect(request.body == Array("{}".utf8) && request.header("webhook-id") == "call_1")
    }
    await client.close()
    await server.stop()
  }

  @Test(arguments: [201, 204, 299, 301, 302, 307, 400, 401, 403, 404, 410, 429, 500, 502, 503])
  func onlySuccessesAreRead(status: Int) async throws {
    let body = status == 204 ? "" : Self.answer
    let reply = try await ask(.answer(status: status, body: body))
    #expect(reply == (status < 300 ? .success(Array(body.utf8)) : .failure(.status(status))))
  }

  @Test func redirectsAreNotFollowed() async throws {
    let count = Atomic(0)
    let server = try await SimulatedHTTPServer.start(authority: nil) { request in
      count.add(1, ordering: .relaxed)
      return request.target == "/hook"
        ? .answer(status: 307, headers: [("location", "/other")])
        : .answer(status: 200, body: Self.answer)
    }
    #expect(try await ask(server.origin + "/hook") == .failure(.status(307)))
    await server.stop()
    #expect(count.load(ordering: .relaxed) == 1)
  }

  /// With HTTP/2 a server may drop a question and keep the connection.
  @Test(
    "a question whose connection was closed, or stream reset, is asked again, and not for ever",
    arguments: [false, true], [(0, true), (1, true), (2, true), (3, false)])
  func lostQuestions(isHTTP2: Bool, row: (lost: Int, isAnswered: Bool)) async throws {
    let authority = isHTTP2 ? try LoopbackAuthority() : nil
    let seen = Mutex<[SimulatedRequest]>([])
    let server = try await SimulatedHTTPServer.start(authority: authority) { request in
      let count = seen.withLock {
        $0.append(request)
        return $0.count
      }
      return count <= row.lost ? .hangUp : .answer(status: 200, body: Self.answer)
    }
    let client = authority.map { HookHTTPClient(authorities: $0.caFile) } ?? HookHTTPClient()
    let reply = try await ask(server.origin + "/hook", client: client)
    #expect(reply == (row.isAnswered ? .success(Array(Self.answer.utf8)) : .failure(.unreachable)))
    let requests = seen.withLock { $0 }
    #expect(requests.count == min(row.lost + 1, 3))
    #expect(requests.allSatisfy { $0.header("webhook-id") == "call_1" })
    #expect(requests.allSatisfy { $0.httpVersion == (isHTTP2 ? 2 : 1) })
    #expect(isHTTP2 || server.connectionCount == requests.count, "each on a new connection")
    await client.close()
    await server.stop()
  }

  @Test(arguments: [HookAnswer.bytesMax, HookAnswer.bytesMax + 1, 5_000_000])
  func aHugeAnswerIsNotRead(bytes: Int) async throws {
    let body = String(repeating: "x", count: bytes)
    let reply = try await ask(.answer(status: 200, body: body))
    let isHuge = bytes > HookAnswer.bytesMax
    #expect(reply == (isHuge ? .failure(.tooLarge) : .success(Array(body.utf8))))
  }

  @Test func whoIsSilentBreaksOffOrIsNotThereIsGivenUp() async throws {
    #expect(try await ask(.blackHole, within: .milliseconds(50)) == .failure(.timeout))
    #expect(try await ask(.truncated(status: 200)) == .failure(.unreachable))
    let server = try await SimulatedHTTPServer.start(authority: nil) { _ in .hangUp }
    await server.stop()
    #expect(try await ask(server.origin) == .failure(.unreachable))
  }

  /// The certificate is good, but of an authority that the system does not trust.
  @Test func aCertificateThatNobodyTrusts() async throws {
    let count = Atomic(0)
    let server = try await SimulatedHTTPServer.start(authority: try LoopbackAuthority()) { _ in
      count.add(1, ordering: .relaxed)
      return .answer(status: 200, body: Self.answer)
    }
    #expect(try await ask(server.origin) == .failure(.unreachable))
    await server.stop()
    #expect(count.load(ordering: .relaxed) == 0)
  }

  @Test func aClosedClientAsksNobody() async throws {
    let server = try await SimulatedHTTPServer.start(authority: nil) { _ in
      .answer(status: 200, body: Self.answer)
    }
    let unused = HookHTTPClient()
    await unused.close()
    #expect(try await ask(server.origin, client: unused) == .failure(.unreachable))
    let used = HookHTTPClient()
    _ = try await ask(server.origin, client: used)
    await used.close()
    await used.close()
    #expect(try await ask(server.origin, client: used) == .failure(.unreachable))
    await server.stop()
    #expect(server.connectionCount == 1)
  }

  /// A question is under way when the node stops.
  @Test func closingGivesUpWhatWaits() async throws {
    let asked = AsyncStream.makeStream(of: Void.self)
    let server = try await SimulatedHTTPServer.start(authority: nil) { _ in
      asked.continuation.yield()
      return .blackHole
    }
    let client = HookHTTPClient()
    async let reply = ask(server.origin, client: client)
    for await _ in asked.stream { break }
    await client.close()
    #expect(try await reply == .failure(.unreachable))
    await server.stop()
  }
}
