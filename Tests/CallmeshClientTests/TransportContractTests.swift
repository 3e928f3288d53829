import CallMachine
import CallmeshClient
import CallmeshNIO
import Synchronization
import Testing

/// The contract of every transport. The system's session is tested where it is: on Apple's platforms.
@Suite(.timeLimit(.minutes(1))) struct TransportContractTests {
  enum Kind: String, CaseIterable, Sendable {
    case nio
    #if canImport(Darwin)
      case urlSession
    #endif

    func make() -> any Transport {
      switch self {
      case .nio: NIOTransport()
      #if canImport(Darwin)
        case .urlSession: URLSessionTransport()
      #endif
      }
    }
  }

  /// A socket, used as the library does: under a lock, which whoever reports needs as well.
  private final class Client: Sendable {
    private let socket = Mutex<(any Socket)?>(nil)
    private let events = EventBuffer<SocketEvent>(capacity: 10_000)

    init(_ transport: any Transport, _ url: String) {
      socket.withLock {
        $0 = transport.connect(to: url, subprotocol: "test.v1") { [weak self] event in
          self?.take(event)
        }
      }
    }

    private func take(_ event: SocketEvent) { socket.withLock { _ in events.append(event) } }

    func send(_ message: SocketMessage) { socket.withLock { $0?.send(message) } }
    func close(code: UInt16?) { socket.withLock { $0?.close(code: code) } }
    func next() async -> SocketEvent? { await events.next() }

    /// The end of the events that have come; nothing waits for more.
    func rest() async -> [SocketEvent] {
      events.finish()
      var rest: [SocketEvent] = []
      while let event = await events.next() { rest.append(event) }
      return rest
    }
  }

  private func isFailure(_ event: SocketEvent?) -> Bool {
    if case .closed(.failed) = event { true } else { false }
  }

  /// A connection to a server that echoes.
  private func talk(_ kind: Kind, _ body: (Client, any Transport, EchoServer) async throws -> Void)
    async throws
  {
    let server = try await EchoServer.start()
    let transport = kind.make()
    let client = Client(transport, server.url)
    #expect(await client.next() == .opened)
    try await body(client, transport, server)
    client.close(code: 1000)
    try await server.stop()
  }

  @Test(arguments: Kind.allCases) func messagesComeAsTheyWereSentAndInOrder(kind: Kind) async throws
  {
    try await talk(kind) { client, _, _ in
      let sent = (0..<200).map { number -> SocketMessage in
        number % 2 == 0 ? .text("grüße \(number)") : .binary([0, 255, UInt8(number)])
      }
      for message in sent { client.send(message) }
      for message in sent { #expect(await client.next() == .message(message)) }
    }
  }

  @Test(arguments: Kind.allCases) func largeMessagesPass(kind: Kind) async throws {
    try await talk(kind) { client, _, _ in
      let large = SocketMessage.binary((0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
      client.send(large)
      #expect(await client.next() == .message(large))
    }
  }

  @Test(arguments: Kind.allCases) func pingsAreAnswered(kind: Kind) async throws {
    try await talk(kind) { client, _, _ in
      client.send(.text("ping"))
      #expect(await client.next() == .message(.text("pong to there?")))
      client.close(code: nil)
    }
  }

  @Test(arguments: Kind.allCases, [4001, 4002, 1000] as [UInt16])
  func theServersCloseCodeArrives(kind: Kind, code: UInt16) async throws {
    try await talk(kind) { client, _, _ in
      client.send(.text("close \(code)"))
      #expect(await client.next() == .closed(.code(code)))
      #expect(await client.rest() == [])
    }
  }

  @Test(arguments: Kind.allCases) func aBrokenConnectionIsReported(kind: Kind) async throws {
    try await talk(kind) { client, _, _ in
      client.send(.text("drop"))
      #expect(isFailure(await client.next()))
      // Dropped, without harm.
      client.send(.text("behind the end"))
    }
  }

  @Test(arguments: Kind.allCases) func nothingIsReportedAfterClosing(kind: Kind) async throws {
    try await talk(kind) { client, transport, server in
      client.close(code: 1001)
      client.send(.text("too late"))
      // Another connection takes as long as an answer on the first would.
      let other = Client(transport, server.url)
      #expect(await other.next() == .opened)
      #expect(await client.rest() == [])
      other.close(code: nil)
    }
  }

  @Test(arguments: Kind.allCases, [nil, "other.v1"] as [String?])
  func aServerThatChoosesAnotherSubprotocolIsRefused(kind: Kind, chosen: String?) async throws {
    let server = try await EchoServer.start(subprotocol: chosen)
    let client = Client(kind.make(), server.url)
    #expect(isFailure(await client.next()))
    try await server.stop()
  }

  @Test(arguments: Kind.allCases) func whereNobodyListensItFails(kind: Kind) async throws {
    let server = try await EchoServer.start()
    try await server.stop()
    let client = Client(kind.make(), server.url)
    #expect(isFailure(await client.next()))
    #expect(isFailure(await Client(kind.make(), "nonsense://").next()))
  }

  /// The whole device, over a real socket.
  @Test(arguments: Kind.allCases) func aDeviceWithoutAnEdgeTriesAgain(kind: Kind) async throws {
    let server = try await EchoServer.start(subprotocol: nil)
    var options = DeviceOptions(edges: [server.url], device: "d1")
    options.token = "token"
    let device = try Device(options, transport: kind.make())
    let events = device.events
    device.start()
    for await event in events { if case .detached = event { break } }
    #expect(device.state == .waiting || device.state == .connecting)
    device.stop()
    try await server.stop()
  }
}
