import CallBus
import CallCore
import CallSimulation
import CallWire

/// An edge without devices, as coordinators see it: it has sessions, retransmits commands until they
/// are answered, announces its sessions, and acknowledges deliveries.
///
/// Touched by the world's thread only.
final class PlainEdge: @unchecked Sendable {
  private struct Attached {
    var user: UserKey
    var device: DeviceID
    var attachedAt: Timestamp
  }
  private struct Pending {
    var shard: Int
    var command: Command
    var done: (Reply) -> Void
  }

  let node: SimNode
  let number: UInt64
  let bus: SimBus
  private let subjects: Subjects
  private let shardCount: Int
  private let clock: ClusterClock
  private var sessions: [UInt64: Attached] = [:]
  private var placed: [(session: UInt64, call: CallID, callee: UserKey)] = []
  private var pending: [UInt64: Pending] = [:]
  private var lastRequest: UInt64 = 0
  private(set) var heard: [(session: UInt64, delivery: Delivery)] = []
  /// Called with each delivery.
  var onDelivery: (UInt64, Delivery) -> Void = { _, _ in }
  private(set) var repliesHeard = 0

  private var world: SimWorld { node.world }

  init(_ nats: SimNATS, number: UInt64, shardCount: Int) throws {
    self.number = number
    self.shardCount = shardCount
    node = nats.world.makeNode("edge-\(number)")
    clock = node.clock()
    bus = nats.connect(node: node)
    subjects = Subjects(cluster: "sim", shardCount: shardCount)
    _ = try bus.subscribe(subjects.replies(to: number)) { [unowned self] in received($0.bytes) }
    _ = try bus.subscribe(subjects.announceRequests) { [unowned self] in announce($0.bytes) }
    beat()
    repeatPending()
  }

  var waiting: Int { pending.count }
  var waitingShards: [Int] { pending.values.map(\.shard) }

  private func beat() {
    let heartbeat = Heartbeat(
      node: "edge-\(number)", role: .edge, incarnation: number, state: .serving, version: "1",
      shardCount: UInt32(shardCount))
    bus.publish(subjects.heartbeats, ClusterCodec.encode(heartbeat))
    world.schedule(after: .milliseconds(200)) { [weak self] in self?.beat() }
  }

  private func repeatPending() {
    for request in pending.keys.sorted() { say(pending[request]!) }
    world.schedule(after: .milliseconds(500)) { [weak self] in
      self?.repeatPending()
    }
  }

  private func say(_ pending: Pending) {
    bus.publish(
      subjects.commands(shard: pending.shard),
      ClusterCodec.encode(CommandBatch(edge: number, commands: [pending.command])))
  }

  private func shard(_ user: UserKey) -> Int { ShardHash.shard(of: user, count: shardCount) }

  // MARK: In

  private func received(_ bytes: [UInt8]) {
    guard let batch = try? ClusterCodec.edgeBatch(bytes) else { return }
    for item in batch.items {
      switch item.body {
      case .reply(let request, let reply):
        repliesHeard += 1
        pending.removeValue(forKey: request)?.done(reply)
      case .delivery(let delivery):
        guard let who = sessions[item.session] else { continue }
        heard.append((item.session, delivery))
        let ack = Acknowledgement(call: delivery.call, version: delivery.version)
        let callee = UserKey(app: who.user.app, user: delivery.callee)
        tell(.ack([ack]), from: item.session, to: callee)
        onDelivery(item.session, delivery)
      case .ongoing, .history, .name, .notice, .close, .visit: break
      }
    }
  }

  private func announce(_ bytes: [UInt8]) {
    guard let request = try? ClusterCodec.announceRequest(bytes) else { return }
    let wanted = Int(request.shard)
    for session in sessions.keys.sorted() where shard(sessions[session]!.user) == wanted {
      let who = sessions[session]!
      tell(
        .attach(Attach(announce: true, attachedAt: who.attachedAt)), from: session, to: who.user)
    }
    for each in placed where shard(each.callee) == wanted {
      tell(.call(each.call, .resume), from: each.session, to: each.callee)
    }
    for number in pending.keys.sorted() where pending[number]!.shard == wanted {
      say(pending[number]!)
    }
    let done = AnnounceDone(
      shard: request.shard, epoch: request.epoch, edge: number, number: request.number)
    bus.publish(subjects.announceDone(shard: wanted), ClusterCodec.encode(done))
  }

  // MARK: Out

  private func tell(_ body: Command.Body, from session: UInt64, to callee: UserKey) {
    guard let who = sessions[session] else { return }
    let command = Command(
      session: SessionRef(edge: number, number: session), request: 0, user: who.user,
      device: who.device, callee: callee, body: body)
    say(Pending(shard: shard(callee), command: command, done: { _ in }))
  }

  /// Retransmits a command until there is a reply.
  func ask(
    _ body: Command.Body, from session: UInt64, to callee: UserKey,
    _ done: @escaping (Reply) -> Void = { _ in }
  ) {
    guard let who = sessions[session] else { return }
    lastRequest += 1
    let command = Command(
      session: SessionRef(edge: number, number: session), request: lastRequest, user: who.user,
      device: who.device, callee: callee, body: body)
    pending[lastRequest] = Pending(shard: shard(callee), command: command, done: done)
    say(pending[lastRequest]!)
  }

  func attach(_ user: UserKey, _ device: DeviceID, session: UInt64) {
    sessions[session] = Attached(user: user, device: device, attachedAt: clock.now())
    ask(
      .attach(Attach(deviceName: device.text, client: "test", attachedAt: clock.now())),
      from: session, to: user)
  }

  func register(session: UInt64) {
    guard let who = sessions[session] else { return }
    ask(.register(RegistrationRequest(deviceName: who.device.text)), from: session, to: who.user)
  }

  func place(
    _ call: CallID, from session: UInt64, to callee: UserKey, _ done: @escaping (Reply) -> Void
  ) {
    placed.append((session, call, callee))
    ask(
      .place(PlaceRequest(call: call, ringTimeoutSeconds: 10)), from: session, to: callee, done)
  }
}
