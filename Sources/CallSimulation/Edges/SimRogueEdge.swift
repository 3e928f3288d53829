internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallWire

/// An edge under an attacker's control. No device attaches through it; it forges commands of
/// sessions at other edges. It sees all commands, more than a client of the bus can, and replays
/// their tickets; it does not see tokens. Otherwise it behaves like an edge without sessions. If
/// coordinators verify tickets, it has no effect on the world.
final class SimRogueEdge: SimActor, @unchecked Sendable {
  let world: SimWorld
  private let node: SimNode
  private let bus: SimBus
  private let subjects: Subjects
  private let shardCount: Int
  private let secret: EdgeSecret
  private var random: SimRandom
  private var seen: [Command] = []
  private var lastRequest = SimRogueEdge.firstRequest
  private var isActive = true

  private static let seenMax = 64
  /// No device numbers its commands so.
  static let firstRequest: UInt64 = 1 << 40

  init(_ nats: SimNATS, _ options: SimOptions) throws {
    world = nats.world
    shardCount = options.shardCount
    subjects = Subjects(cluster: SimOptions.cluster, shardCount: options.shardCount)
    node = world.makeNode("taken")
    bus = nats.connect(node: node)
    random = world.fork("taken edge")
    secret = EdgeSecret(high: random.next(), low: 2)
    _ = try bus.subscribe(subjects.announceRequests) { [unowned self] in announce($0.bytes) }
    nats.observers.delivered.append { [unowned self] _, message in listen(message) }
    beat()
    act()
  }

  private var number: UInt64 { EdgeNumber.of(secret: secret.high, secret.low) }

  func end() { isActive = false }

  // MARK: As any edge

  private func beat() {
    let heartbeat = Heartbeat(
      node: "taken", role: .edge, incarnation: number, state: .serving, version: "simulated",
      shardCount: UInt32(shardCount))
    bus.publish(subjects.heartbeats(of: "edge"), ClusterCodec.encode(heartbeat))
    later(.milliseconds(200)) { $0.beat() }
  }

  private func announce(_ bytes: [UInt8]) {
    guard let request = try? ClusterCodec.announceRequest(bytes) else { return }
    let done = AnnounceDone(
      shard: request.shard, epoch: request.epoch, edge: number, sessions: 0,
      number: request.number, secret: secret)
    bus.publish(subjects.announceDone(shard: Int(request.shard)), ClusterCodec.encode(done))
  }

  // MARK: As no other

  private func listen(_ message: BusMessage) {
    guard message.subject.hasSuffix(".commands"),
      let batch = try? ClusterCodec.commandBatch(message.bytes), batch.edge != 0,
      batch.edge != number
    else { return }
    for var command in batch.commands where !command.isReachabilityProbe {
      // The session's number is secret as well.
      if command.ticket == nil { command.credential = .none }
      seen.append(command)
    }
    if seen.count > Self.seenMax { seen.removeFirst(seen.count - Self.seenMax) }
  }

  private func act() {
    later(random.span(.milliseconds(20), .milliseconds(600))) { edge in
      guard edge.isActive else { return }
      if let command = edge.random.pick(edge.seen) { edge.forge(command) }
      edge.act()
    }
  }

  private func forge(_ command: Command) {
    lastRequest += 1
    let isAnothers = random.chance(0.3)
    let edge = isAnothers ? command.session.edge : number
    var forged = Command(
      session: SessionRef(edge: edge, number: command.session.number), request: lastRequest,
      user: command.user, device: command.device, callee: command.callee,
      body: body(like: command))
    switch forged.body {
    // These go to the shard of their sender.
    case .attach, .sessionClosed, .unregister: forged.callee = forged.user
    default: break
    }
    forged.credential = credential(command)
    world.count("taken edge.forged")
    world.note("taken", call: command.body.call, "speaks for \(forged.user)/\(forged.device)")
    let shard = ShardHash.shard(of: forged.callee, count: shardCount)
    bus.publish(
      subjects.commands(shard: shard),
      ClusterCodec.encode(
        CommandBatch(edge: edge, secret: random.chance(0.9) ? secret : nil, commands: [forged])))
  }

  private func credential(_ command: Command) -> Credential {
    if random.chance(0.5) { return command.credential }
    guard random.chance(0.5) else { return .none }
    return .ticket(SessionTicket(high: random.next(), low: random.next(), expires: .max, issued: 1))
  }

  private func body(like command: Command) -> Command.Body {
    var said = command.body.call
    if case .ack(let items) = command.body { said = items.first?.call }
    let call = said ?? CallID(high: random.next(), low: random.next())
    let forged: [Command.Body] = [
      .attach(Attach(announce: true, attachedAt: world.now)),
      .attach(Attach(attachedAt: world.now)),
      .sessionClosed(graceful: true), .callerGone([call]), .unregister(command.device),
      .place(PlaceRequest(call: CallID(high: random.next(), low: random.next()))),
      .call(call, .hangUp), .call(call, .cancel), .call(call, .decline(.everywhere)),
      .call(call, .answer(description: "forged")),
      .call(call, .signal(.candidate, body: "forged")), .call(call, .resume),
      .call(call, .pull(PullRequest(from: command.device))),
    ]
    return random.pick(forged) ?? .call(call, .hangUp)
  }
}
