import CallBus
import CallCore
import CallSimulation
import CallWire
import Testing

/// Messages of nodes, registrations, purges and owners.
extension StoreInvariantsTests {
  @Test func anAnswerBeforeItsAppend() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.ask(1)
    rig.say(rig.first, .reply(request: 1, .done))
    #expect(rig.complaint.contains("before an append"))
  }

  @Test func anAnswerBehindAnAppendThatBeganBeforeTheCommand() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, wait: false)
    rig.world.runJobs()
    rig.world.run(for: .milliseconds(2))
    rig.ask(1)
    rig.say(rig.first, .reply(request: 1, .done))
    #expect(rig.complaint.contains("before an append"))
  }

  @Test func anAnswerToNobody() throws {
    let rig = try Rig()
    rig.append(rig.second, 1, 0)
    rig.say(rig.second, .reply(request: 1, .done))
    #expect(rig.complaint.contains("never got"))
  }

  @Test func twoWinners() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, [rig.placed, rig.answered(by: "d1")])
    rig.append(rig.first, 1, 2, [rig.answered(by: "d2")])
    #expect(rig.complaint.contains("two devices won"))
  }

  @Test func aWinnerThatNoRecordKnows() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.ask(1)
    rig.append(rig.first, 1, 1, [rig.placed, rig.answered(by: "d2")])
    let state = CallState(call: rig.call, callee: "bob", phase: .answered, version: 1 << 20 | 1)
    rig.say(rig.first, .reply(request: 1, .answer(won: true, state)))
    #expect(rig.complaint.contains("is told that it won"))
  }

  @Test func aStopThatNoRecordKnows() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, [rig.placed])
    rig.say(rig.first, rig.stop(version: 1 << 20 | 1))
    #expect(rig.complaint.contains("told to stop"))
  }

  @Test func aWordInAnothersEpoch() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, [rig.placed, rig.ended])
    rig.say(rig.second, rig.stop(version: 1 << 20 | 1))
    #expect(rig.complaint.contains("not its own"))
  }

  @Test func aPurgeBeforeItsCheckpoint() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.first, 1, 1, [rig.placed])
    rig.append(rig.first, 1, 2)
    let bus = rig.first
    _ = bus.node.start {
      let journal = try? await bus.openJournal(JournalOptions())
      try? await journal?.purge(shard: 0, through: 1 << 40)
    }
    rig.world.run(for: .milliseconds(10))
    #expect(rig.complaint.contains("another story"))
  }

  @Test(
    "a former owner writes over a later one's registration, or removes it",
    arguments: [[1], nil] as [[UInt8]?])
  func aRegistrationWrittenOver(_ value: [UInt8]?) throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.register(rig.first, [1])
    rig.append(rig.second, 2, 0)
    rig.register(rig.second, [2])
    #expect(rig.world.failure == nil)
    rig.register(rig.first, value)
    #expect(rig.complaint.contains("writes over a registration of epoch 2"))
  }

  @Test("behind a removal only a first registration may come: it expects nothing")
  func aFirstRegistrationBehindARemoval() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.append(rig.second, 2, 0)
    rig.register(rig.second, [2])
    rig.register(rig.second, nil)
    rig.register(rig.first, [1], expecting: 0)
    #expect(rig.nats.store.entries(rig.subjects.registrationBucket) { _ in true }.count == 1)
    // The former owner wrote it last.
    rig.register(rig.second, [2])
    rig.register(rig.second, nil)
    #expect(rig.world.failure == nil)
    rig.register(rig.first, [1])
    #expect(rig.complaint.contains("writes over a registration of epoch 2"))
  }

  @Test func aShardWithoutALivingOwner() throws {
    let rig = try Rig()
    rig.append(rig.first, 1, 0)
    rig.first.node.kill()
    rig.invariants.checkOwners()
    #expect(rig.complaint.contains("has no owner"))
  }
}
