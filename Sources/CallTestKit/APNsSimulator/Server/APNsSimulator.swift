public import CallCore
internal import NIOCore
internal import NIOPosix
internal import NIOSSL
internal import Synchronization

/// A server for the provider API of APNs, as strict as Apple's documents allow, with the faults of a script. It is
/// written from those documents and not from any sender.
///
/// ```swift
/// let apns = try await APNsSimulator.start()
/// apns.register(token, topic: "com.example.calls.voip")
/// // A sender that trusts apns.authorityPEM and signs with apns.key.privateKeyPEM …
/// #expect(apns.report.violationsTotal == 0)
/// await apns.stop()
/// ```
public final class APNsSimulator: Sendable {
  public let options: APNsSimulatorOptions
  public let port: Int
  /// The authority of the server's certificate, for clients to trust.
  public let authorityPEM: String
  /// The first of the keys.
  public let key: APNsProviderKey

  let core: Mutex<APNsSimulatorCore>
  private let group: any EventLoopGroup
  private let tls: NIOSSLContext
  private let sockets = Mutex(Sockets())

  private struct Sockets {
    var listener: (any Channel)?
    var connections: [Int: any Channel] = [:]
  }

  public struct NoKey: Error {}

  private init(
    _ options: APNsSimulatorOptions, group: any EventLoopGroup, port: Int,
    authority: LoopbackAuthority
  ) throws {
    guard let key = options.keys.first else { throw NoKey() }
    self.options = options
    self.group = group
    self.port = port
    self.key = key
    authorityPEM = authority.certificate
    var teams = APNsTeams()
    for key in options.keys { teams.add(key, bundles: options.bundles) }
    var rules = APNsRules()
    rules.environment = options.environment
    rules.leniency = options.leniency
    rules.identityLimits = .init(timeScale: options.timeScale)
    rules.tokenPushesPerSecond = options.tokenPushesPerSecond
    core = Mutex(
      APNsSimulatorCore(
        rules: rules,
        knowledge: .init(teams: teams, book: APNsTokenBook(strangers: options.strangers)),
        script: APNsScriptState(options.script)))
    tls = try Self.tls(options, authority)
  }

  private static func tls(
    _ options: APNsSimulatorOptions, _ authority: LoopbackAuthority
  ) throws -> NIOSSLContext {
    let kind = options.certificate
    let signer = kind == .untrusted ? try LoopbackAuthority() : authority
    var names = ["localhost"]
    if options.host.contains(where: \.isLetter) { names.append(options.host) }
    let identity = try signer.issue(
      names: kind == .otherName ? ["elsewhere.example"] : names,
      addresses: kind == .otherName ? [] : ["127.0.0.1", "::1"],
      seconds: kind == .expired ? -60 : 86_400 * 30)
    return try signer.serverContext(protocols: options.protocols, identity: identity)
  }

  /// Starts a server on the loopback.
  /// - Throws: `NoKey`, or the error of the certificates or of the socket.
  public static func start(
    _ options: APNsSimulatorOptions = APNsSimulatorOptions()
  ) async throws -> APNsSimulator {
    let group =
      options.eventLoopGroup ?? MultiThreadedEventLoopGroup(numberOfThreads: options.threads)
    do {
      let authority = try LoopbackAuthority()
      // The listener starts before the simulator, which needs the port. Connections wait in the backlog until it
      // accepts.
      let ready = Mutex<APNsSimulator?>(nil)
      let listener = try await bootstrap(group) { ready.withLock { $0 } }
        .bind(host: options.host, port: options.port).get()
      let port = listener.localAddress?.port ?? 0
      let simulator = try APNsSimulator(options, group: group, port: port, authority: authority)
      ready.withLock { $0 = simulator }
      simulator.sockets.withLock { $0.listener = listener }
      try await listener.setOption(.autoRead, value: true).get()
      return simulator
    } catch {
      if options.eventLoopGroup == nil { try? await group.shutdownGracefully() }
      throw error
    }
  }

  private static func bootstrap(
    _ group: any EventLoopGroup, _ simulator: @escaping @Sendable () -> APNsSimulator?
  ) -> ServerBootstrap {
    ServerBootstrap(group: group)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelOption(.backlog, value: 512)
      .serverChannelOption(.autoRead, value: false)
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          guard let simulator = simulator() else { return channel.close(promise: nil) }
          try simulator.accept(channel)
        }
      }
  }

  private func accept(_ channel: any Channel) throws {
    let (number, fault) = core.withLock { $0.accept(now: options.clock()) }
    sockets.withLock { $0.connections[number] = channel }
    channel.closeFuture.whenComplete { _ in self.closed(number) }
    switch fault {
    case .cut: resetChannel(channel)
    case .silent: break
    case .blackHole, .noSettings, nil:
      try channel.pipeline.syncOperations.addHandlers([
        NIOSSLServerHandler(context: tls),
        APNsSimulatorConnection(self, number: number, fault: fault),
      ])
    }
  }

  private func closed(_ number: Int) {
    sockets.withLock { $0.connections[number] = nil }
    core.withLock { $0.ended(number, now: options.clock()) }
  }

  // MARK: Tests and tools

  /// A copy of all counts, for the end of a run.
  public var report: APNsReport { core.withLock { $0.reportNow } }

  /// Registers a device's token for an app.
  /// - Parameter topic: the bundle id, with `.voip` for a token of PushKit.
  public func register(
    _ token: String, topic: String, environment: APNsEnvironment? = nil, device: String? = nil
  ) {
    core.withLock {
      $0.knowledge.book.register(
        token, topic: topic, environment: environment ?? options.environment, device: device)
    }
  }

  /// Marks a token as gone since `at`.
  public func unregister(_ token: String, at: Timestamp, reason: APNsReason = .unregistered) {
    core.withLock { $0.knowledge.book.drop(token, at: at, reason: reason) }
  }

  /// Replaces the script and starts it from its beginning.
  public func play(_ script: APNsScript) {
    core.withLock { $0.script = APNsScriptState(script) }
  }

  /// Makes a device unreachable. The last push of each bundle to it is stored.
  public func unregister(device: String) { core.withLock { $0.shelf.leave(device) } }

  public func bringBack(device: String) {
    let pushes = core.withLock { $0.shelf.comeBack(device, now: options.clock()) }
    for push in pushes { hand(push) }
  }

  /// Counts a violation of the sender that a device found.
  public func note(_ violation: APNsViolation, about push: APNsPush) {
    core.withLock { $0.report.note(violation, connection: push.connection, about: push.id) }
  }

  /// Resets all TCP connections.
  public func cutConnections() {
    let channels = sockets.withLock { Array($0.connections.values) }
    for channel in channels { channel.eventLoop.execute { resetChannel(channel) } }
  }

  /// Refuses new connections until `listenAgain`; open ones stay.
  public func stopListening() async {
    let listener = sockets.withLock { sockets in
      defer { sockets.listener = nil }
      return sockets.listener
    }
    try? await listener?.close().get()
  }

  /// Listens on the same port as before.
  /// - Throws: the error of the socket.
  public func listenAgain() async throws {
    let listener = try await Self.bootstrap(group) { [weak self] in self }
      .bind(host: options.host, port: port).get()
    sockets.withLock { $0.listener = listener }
    try await listener.setOption(.autoRead, value: true).get()
  }

  /// Closes all connections and the listener.
  public func stop() async {
    await stopListening()
    let channels = sockets.withLock { Array($0.connections.values) }
    cutConnections()
    for channel in channels { try? await channel.closeFuture.get() }
    if options.eventLoopGroup == nil { try? await group.shutdownGracefully() }
  }
}

// MARK: Reports of its connections

extension APNsSimulator {
  func unanswered(_ count: Int = 1) { core.withLock { $0.report.unanswered += count } }

  func deliver(_ push: APNsPush?) {
    guard let push, core.withLock({ $0.delivers(push) }) else { return }
    hand(push)
  }

  private func hand(_ push: APNsPush) {
    for violation in options.devices?.check(push) ?? [] { note(violation, about: push) }
    options.onPush?(push)
  }

  func note(_ violations: [APNsViolation], connection: Int) {
    if violations.isEmpty { return }
    core.withLock { core in
      for violation in violations { core.report.note(violation, connection: connection) }
    }
  }
}
