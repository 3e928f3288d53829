import CallBus
import CallCore
import CallSimulation
import CallWire
import Testing

/// Hand-made histories that break an invariant: each is found.
@Suite struct StoreInvariantsTests {
  /// Touched by the world's thread only.
  final class Rig: @unchecked Sendable {
    let world = SimWorld(seed: 1)
    let nats: SimNATS
    let invariants: StoreInvariants
    let first: SimBus
    let second: SimBus
    let edge: SimBus
    let subjects = Subjects(cluster: "sim", shardCount: 1)
    let callee = UserKey(app: "sim", user: "bob")
    let call = CallID(high: 1, low: 2)
    var end: UInt64 = 0

    init() throws {
      nats = SimNATS(world)
      var options = SimCoordinatorOptions()
      options.shardCount = 1
      invariants = StoreInvariants(nats, app: "sim", options: options)
      first = nats.connect(node: world.makeNode("c1"))
      second = nats.connect(node: world.makeNode("c2"))
      edge = nats.connect(node: world.makeNode("e1"))
      _ = try first.subscribe(subjects.commands(shard: 0)) { _ in }
      world.run(for: .milliseconds(10))
    }

    /// Appends at the journal's end. By default the writer learns the result.
    func append(
      _ bus: SimBus, _ epoch: UInt64, _ number: UInt64, _ entries: [JournalEntry] = [],
      previous: UInt64? = nil, released: Bool = false, wait: Bool = true
    ) {
      let record = JournalRecord(
        epoch: epoch, number: number, writer: bus.node.name, at: world.now, entries: entries,
        released: released, previous: previous)
      let expecting = end
      _ = bus.node.start { [self] in
        guard let journal = try? await bus.openJournal(JournalOptions()) else { return }
        journal.append(shard: 0, expecting: expecting, ClusterCodec.encode(record)) { [self] in
          if case .appended(let sequence) = $0 { end = sequence }
        }
      }
      if wait { world.run(for: .milliseconds(10)) }
    }

    /// Both wait on a stalled line, and then run, the purge first.
    func purgeAndAppend(_ bus: SimBus, _ record: JournalRecord) {
      let expecting = end
      _ = bus.node.start { [self] in
        guard let journal = try? await bus.openJournal(JournalOptions()) else { return }
        nats.stall([bus.node], for: .milliseconds(100))
        _ = bus.node.start { try? await journal.purge(shard: 0, through: 1) }
        _ = world.schedule(after: .milliseconds(1)) {
          _ = bus.node.start {
            journal.append(shard: 0, expecting: expecting, ClusterCodec.encode(record)) { _ in }
          }
        }
      }
      world.run(for: .seconds(2))
    }

    /// Writes or removes the registration of one device, by default unconditionally.
    func register(_ bus: SimBus, _ value: [UInt8]?, expecting: UInt64? = nil) {
      let name = subjects.registrationBucket
      let key = Subjects.registrationKey(shard: 0, app: "sim", user: "bob", device: "d1")
      _ = bus.node.start {
        guard let bucket = try? await bus.openBucket(name, BucketOptions()) else { return }
        if let value {
          bucket.put(key, value, expecting: expecting) { _ in }
        } else {
          bucket.delete(key, expecting: expecting) { _ in }
        }
      }
      world.run(for: .milliseconds(10))
    }

    func ask(_ request: UInt64) {
      let command = Command(
        session: SessionRef(edge: 9, number: 1), request: request, user: callee, device: "d1",
        callee: callee, body: .call(call, .query))
      edge.publish(
        subjects.commands(shard: 0),
        ClusterCodec.encode(CommandBatch(edge: 9, commands: [command])))
      world.run(for: .milliseconds(10))
    }

    func say(_ bus: SimBus, _ body: EdgeItem.Body) {
      bus.publish(
        subjects.replies(to: 9),
        ClusterCodec.encode(EdgeBatch(items: [EdgeItem(session: 1, body: body)])))
      world.run(for: .milliseconds(10))
    }

    func stop(version: UInt64) -> EdgeItem.Body {
      .delivery(
        Delivery(
          call: call, callee: "bob", version: version, at: world.now,
          event: .stop(Stop(reason: .cancelled))))
    }

    var placed: JournalEntry {
      JournalEntry(
        call: call,
        change: .placed(
          PlacedFacts(
            callee: callee, caller: Party(user: "ann", device: "a1", deviceName: ""),
            placedAt: world.now, deadline: world.now + .seconds(30), video: false,
            description: "", headers: [], legs: [Party(user: "bob", device: "d1", deviceName: "")],
            fingerprint: 1)))
    }

    func answered(by device: DeviceID) -> JournalEntry {
      JournalEntry(
        call: call,
        change: .answered(
          AnsweredFacts(
            by: Party(user: "bob", device: device, deviceName: ""), at: world.now,
            description: "", connectDeadline: world.now + .seconds(15))))
    }

    var ended: JournalEntry {
      JournalEntry(
        call: call,
        change: .ended(EndedFacts(reason: .cancelled, by: nil, at: world.now, missed: true)))
    }

    var complaint: String { world.failure?.reason ?? "" }
  }

  @Test func aGoodHistoryIsLeftAlone() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.ask(1)
    rig.append(rig.first, 1, 1, [rig.placed])
    rig.say(rig.first, .reply(request: 1, .done))
    rig.append(rig.first, 1, 2, [rig.ended])
    rig.say(rig.first, rig.stop(version: 1 << 20 | 1))
    rig.append(rig.first, 1, 3, released: true)
    rig.append(rig.second, 2, 0)
    rig.say(rig.second, rig.stop(version: 2 << 20 | 1))
    rig.invariants.checkOwners()
    rig.invariants.checkStore()
    rig.world.run(for: .seconds(1))
    #expect(rig.world.failure == nil)
  }

  @Test func aRecordThatComesWhileStoreAndRecordsAreComparedIsNotMissed() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, [rig.placed])
    var done: [(what: String, at: Timestamp)] = []
    rig.nats.observers.purged.append { _, _ in done.append(("purge", rig.world.now)) }
    rig.nats.observers.appended.append { _, _, _ in done.append(("append", rig.world.now)) }
    rig.purgeAndAppend(
      rig.first,
      JournalRecord(epoch: 1, number: 2, writer: "c1", at: rig.world.now, entries: [rig.ended]))
    #expect(done.map(\.what) == ["purge", "append"])
    #expect(done.first?.at == done.last?.at)
    #expect(rig.complaint == "")
  }

  @Test func aRecordBehindTheFenceOfALaterOwner() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.second, 2, 0)
    rig.append(rig.first, 1, 1)
    #expect(rig.complaint.contains("behind the fence of epoch 2"))
  }

  @Test func twoOwnersOfOneEpoch() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.second, 1, 1)
    #expect(rig.complaint.contains("two owners"))
  }

  @Test func aRecordThatIsMissing() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 2)
    #expect(rig.complaint.contains("number 2 follows 0"))
  }

  @Test func aRecordThatFollowsAnother() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0, previous: 0)
    rig.append(rig.first, 1, 1, previous: 7)
    #expect(rig.complaint.contains("follows a record that journal 0 does not have"))
  }

  @Test func anEpochWithoutAFence() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 1)
    #expect(rig.complaint.contains("without a fence"))
  }
}
