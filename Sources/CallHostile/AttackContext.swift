import CallAuth
import CallClient
import CallCore
import CallWire
import Glibc
import NIOCore
import NIOPosix

/// The means of one attack: a pace, connections from its own addresses, sessions, and an account.
final class AttackContext {
  let attack: Attack
  let edges: [EdgeAddress]
  var random: SplitMix64
  var account = AttackAccount()
  private let target: AttackTarget
  private let eventLoop: any EventLoop
  private let loop: NIODeviceLoop
  private let network: NIODeviceNetwork
  private var sources: SourceAddresses
  private var connects = 0
  private var isOver = false

  /// Addresses of each attack: few enough for limits per address to take effect.
  static let addresses = 4

  /// To be called on the event loop.
  init(_ attack: Attack, target: AttackTarget, seed: UInt64, eventLoop: any EventLoop) {
    self.attack = attack
    self.target = target
    self.eventLoop = eventLoop
    edges = target.edges.compactMap { EdgeAddress($0) }
    precondition(!edges.isEmpty, "the load has connected to one")
    // 127.66.0.x, 127.67.0.x and so on.
    let number = Attack.allCases.firstIndex(of: attack) ?? 0
    sources = SourceAddresses(second: UInt8(66 + number), count: Self.addresses)
    random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37)
    // Attacks need spans only.
    loop = NIODeviceLoop(eventLoop: eventLoop, wallClock: Timestamp(microseconds: 0))
    network = NIODeviceNetwork(eventLoop: eventLoop, codec: .protobuf, sources: sources)
  }

  func stop() -> AttackAccount {
    isOver = true
    return account
  }

  func begin() {
    switch attack {
    case .pipelinedHTTP: pipelineHTTP()
    case .pingFlood: floodPings()
    case .halfFrames: sendHalfFrames()
    case .slowLoris: sendSlowly()
    case .connectionFlood: floodConnections()
    case .handshakeFlood: floodHandshakes()
    case .badTokens: sendBadTokens()
    case .sessionFlood: floodSessions()
    case .placeFlood: floodPlaces { "hostile-places-\($0 % 10)" }
    case .ringFlood: floodRings()
    case .hugeDescriptions: floodPlaces(descriptionBytes: 60_000) { _ in "hostile-descriptions" }
    case .candidateFlood: floodCandidates()
    case .garbage: sendGarbage()
    case .appFlood: floodApp()
    }
  }

  // MARK: Pace

  /// Acts at a rate, whatever the result. Acts that a busy machine delays by more than a tenth of a second are left out:
  /// all attacks share a thread, and the first ones would leave no time for the others.
  func pace(_ perSecond: Double, _ act: @escaping () -> Void) {
    let began = loop.now
    var done = 0
    every(.milliseconds(10)) { [weak self] in
      guard let self else { return }
      let due = Int(Double((loop.now - began).microseconds) / 1e6 * perSecond) + 1
      done = max(done, due - Int(perSecond / 10) - 1)
      while done < due {
        done += 1
        act()
      }
    }
  }

  /// Acts at the attack's own rate, in lots where it is high.
  func paceAttack(lot: Int = 1, _ act: @escaping () -> Void) {
    pace(attack.facts.perSecond / Double(lot), act)
  }

  /// Lets the open connections act in turn, at the attack's own rate. `act` does a whole lot or nothing.
  func paceAttack<Member>(
    lot: Int = 1, _ fleet: AttackFleet<Member>,
    _ act: @escaping (_ member: Member, _ number: Int) -> Bool
  ) {
    paceAttack(lot: lot) { [unowned self] in
      guard let (number, member) = fleet.next(of: attack.facts.connections) else { return }
      if act(member, number) { account.attempts += lot }
    }
  }

  func after(_ span: Span, _ act: @escaping () -> Void) {
    loop.schedule(at: loop.now + span) { [weak self] in
      if self?.isOver == false { act() }
    }
  }

  func every(_ span: Span, _ act: @escaping () -> Void) {
    after(span) { [weak self] in
      act()
      self?.every(span, act)
    }
  }

  /// Keeps the attack's connections open: one that ends is opened again a second later.
  /// - Parameter open: begins a connection, and calls `ended` once when that has ended.
  func keepOpen(_ open: @escaping (_ number: Int, _ ended: @escaping () -> Void) -> Void) {
    var waiting = Array((0..<attack.facts.connections).reversed())
    pace(attack.facts.opensPerSecond) { [weak self] in
      guard let number = waiting.popLast() else { return }
      open(number) { self?.after(.seconds(1)) { waiting.insert(number, at: 0) } }
    }
  }

  // MARK: Connections

  func connect(_ socket: AttackSocket) {
    connects += 1
    let edge = edges[connects % edges.count]
    let bound = NIOLoopBound(socket, eventLoop: eventLoop)
    var bootstrap = ClientBootstrap(group: eventLoop)
    if let source = sources.next(for: edge.host) { bootstrap = bootstrap.bind(to: source) }
    bootstrap
      .connectTimeout(.seconds(5))
      // A small buffer, so that unread bytes wait at the edge and not in this machine's kernel.
      .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(bound.value)
        }
      }
      .connect(host: edge.host, port: edge.port)
      .whenFailure { _ in bound.value.failed() }
  }

  func link(_ delegate: any DeviceLinkDelegate) -> any DeviceLink {
    connects += 1
    return network.connect(to: target.edges[connects % target.edges.count], delegate: delegate)
  }

  // MARK: Credentials

  var app: String { attack == .appFlood ? target.otherApp : target.app }

  /// A valid token of a hostile user; empty where none can be made.
  func token(user: String) -> String {
    let now = Int64(time(nil))
    return (try? target.keys.mintToken(app: app, user: user, lifetimeSeconds: 3_600, now: now))
      ?? ""
  }

  /// Tokens of one user with wrong signatures, each with another.
  func forgedTokens(_ count: Int, user: String) -> [String] {
    let kid = target.keys.keyID(app: app, algorithm: "ES256") ?? "dev-es256"
    let header = Base64URL.text(Array(#"{"alg":"ES256","kid":"\#(kid)","typ":"JWT"}"#.utf8))
    let claims = token(user: user).split(separator: ".").dropFirst().first ?? ""
    return (0..<count).map { _ in
      let signature = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
      return "\(header).\(claims).\(Base64URL.text(signature))"
    }
  }

  func callID() -> CallID { CallID(high: random.next(), low: random.next()) }
}
