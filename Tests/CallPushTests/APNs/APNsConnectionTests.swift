import CallCore
import CallPush
import Testing

@Suite("APNs pool: connections")
struct APNsConnectionTests {
  @Test("pushes are held until the first SETTINGS frame") func heldUntilSettings() {
    var rig = PoolRig()
    let push = rig.submit()
    let id = rig.connected[0]
    rig.run { $0.connected(id, now: $1) }
    rig.pass(.seconds(1))
    #expect(rig.sent.isEmpty)
    rig.settings(id, 1)
    #expect(rig.sent.map(\.push) == [push])
  }

  @Test("one at a time until the first 200, however many the peer allows") func probing() {
    var rig = PoolRig()
    let id = rig.connected[0]
    let pushes = (0..<5).map { _ in rig.submit() }
    rig.up(id, maxStreams: 1000)
    #expect(rig.sent.count == 1)
    rig.answer(rig.sent[0], 400, "BadDeviceToken")
    #expect(rig.results[pushes[0]] == .tokenRefused(reason: "BadDeviceToken"))
    #expect(rig.sent.count == 2, "a refused push proves nothing")
    #expect(rig.openSends(id).count == 1)
    rig.answer(rig.sent[1], 200)
    #expect(rig.openSends(id).count == 3)
  }

  @Test("as many as SETTINGS allow, and as our own cap does") func limits() {
    var (rig, ids) = PoolRig.proven(inFlight: 4, maxStreams: 2)
    for _ in 0..<20 { rig.submit() }
    #expect(rig.openSends(ids[0]).count == 2)
    rig.settings(ids[0], 3)
    #expect(rig.openSends(ids[0]).count == 3)
    rig.settings(ids[0], 1000)
    #expect(rig.openSends(ids[0]).count == 4)
    // A frame that does not mention streams changes nothing.
    rig.settings(ids[0], nil)
    rig.settings(ids[0], 1)
    for _ in 0..<3 { rig.answer(rig.openSends(ids[0])[0], 200) }
    #expect(rig.sent.count == 4, "none before there are fewer than allowed")
    rig.answer(rig.openSends(ids[0])[0], 200)
    #expect(rig.sent.count == 5)
    rig.settings(ids[0], 0)
    rig.answer(rig.openSends(ids[0])[0], 200)
    #expect(rig.sent.count == 5)
    // First SETTINGS without a limit: ours holds.
    rig = PoolRig(inFlight: 7)
    rig.up(rig.connected[0], maxStreams: nil)
    for _ in 0..<10 { rig.submit() }
    rig.answer(rig.sent[0], 200)
    #expect(rig.openSends(rig.connected[0]).count == 7)
  }

  @Test("a burst is spread over the connections") func spread() {
    var (rig, ids) = PoolRig.proven(connections: 3)
    for _ in 0..<9 { rig.submit() }
    #expect(ids.map { rig.openSends($0).count } == [3, 3, 3])
  }

  @Test(
    "GOAWAY: unseen streams go elsewhere at once, the others are answered, the next connection opens"
  )
  func goAway() {
    var (rig, ids) = PoolRig.proven(connections: 2)
    rig.pass(.seconds(2))
    let pushes = (0..<8).map { _ in rig.submit() }
    let there = rig.openSends(ids[0])
    rig.goAway(ids[0], last: there[1].stream, reason: "Shutdown")
    #expect(rig.notes.contains(.goAway(ids[0], isError: false, reason: "Shutdown")))
    #expect(rig.connected.count == 3, "the next one is opened in parallel")
    let moved = rig.sent.suffix(2)
    #expect(moved.map(\.connection) == [ids[1], ids[1]])
    #expect(Set(moved.map(\.push)) == Set(there[2...].map(\.push)))
    #expect(rig.disconnected[ids[0]] == nil)
    for sent in there[...1] { rig.answer(sent, 200) }
    #expect(rig.disconnected[ids[0]] != nil, "closed when all are answered")
    for sent in rig.openSends(ids[1]) { rig.answer(sent, 200) }
    #expect(pushes.allSatisfy { rig.outcome($0) == .accepted })
    #expect(!rig.notes.contains(.repeated), "nothing's fate was unknown")
  }

  @Test("GOAWAY in two phases") func twoPhases() {
    var (rig, ids) = PoolRig.proven()
    for _ in 0..<4 { rig.submit() }
    let there = rig.openSends(ids[0])
    rig.goAway(ids[0], last: 0x7fff_ffff)
    let later = rig.submit()
    #expect(rig.openSends(ids[0]).count == 4, "no new streams, none given up")
    rig.goAway(ids[0], last: there[2].stream)
    #expect(rig.notes.filter { $0 == .requeued }.count == 1)
    for sent in there[...2] { rig.answer(sent, 200) }
    rig.wait(.milliseconds(200))
    rig.up(rig.connected[1])
    rig.answer(rig.openSends(rig.connected[1])[0], 200)
    #expect(Set(rig.sent.suffix(2).map(\.push)) == [there[3].push, later])
  }

  @Test("GOAWAY with an error: closed at once; what was unseen is free, the rest is sent once more")
  func goAwayError() {
    var (rig, ids) = PoolRig.proven(connections: 2)
    for _ in 0..<8 { rig.submit() }
    let there = rig.openSends(ids[0])
    rig.goAway(ids[0], last: there[1].stream, error: true)
    #expect(rig.disconnected[ids[0]] != nil)
    #expect(rig.notes.filter { $0 == .requeued }.count == 2)
    #expect(rig.notes.filter { $0 == .repeated }.count == 2)
    #expect(rig.openSends(ids[1]).count == 8)
  }

  @Test("what a draining connection does not answer in its grace is sent once more")
  func drainGrace() {
    var (rig, ids) = PoolRig.proven(connections: 2) {
      $0.attemptTimeout = .seconds(30)
      $0.drainGrace = .seconds(1)
    }
    for _ in 0..<2 { rig.submit() }
    rig.goAway(ids[0], last: 0x7fff_ffff)
    rig.pass(.milliseconds(999))
    #expect(rig.disconnected[ids[0]] == nil)
    rig.pass(.milliseconds(1))
    #expect(rig.disconnected[ids[0]] == "draining took too long")
    #expect(rig.sent.last?.attempt == 2)
    #expect(rig.sent.last?.connection == ids[1])
  }

  @Test("quiet with requests open: a ping, no new pushes, and death without an answer")
  func liveness() {
    var (rig, ids) = PoolRig.proven(connections: 2) { $0.attemptTimeout = .seconds(30) }
    let first = rig.submit()
    let second = rig.submit()
    #expect(rig.openSends(ids[0]).map(\.push) == [first])
    rig.pass(.milliseconds(1000))
    rig.answer(rig.openSends(ids[1])[0], 200)
    #expect(rig.outcome(second) == .accepted)
    rig.pass(.milliseconds(1000))
    #expect(rig.pinged == [ids[0]])
    for _ in 0..<3 { rig.submit() }
    #expect(rig.openSends(ids[1]).count == 3, "the quiet one gets none")
    rig.pass(.milliseconds(1999))
    #expect(rig.disconnected[ids[0]] == nil)
    rig.read(ids[1])
    rig.pass(.milliseconds(1))
    #expect(rig.disconnected[ids[0]] == "a ping was not answered")
    #expect(rig.sent.last?.push == first)
    #expect(rig.sent.last?.connection == ids[1])
  }

  @Test("any bytes answer a ping") func pingAnswered() {
    var (rig, ids) = PoolRig.proven { $0.attemptTimeout = .seconds(30) }
    rig.submit()
    rig.pass(.seconds(2))
    #expect(rig.pinged == ids)
    rig.submit()
    #expect(rig.openSends(ids[0]).count == 1)
    rig.read(ids[0])
    #expect(rig.openSends(ids[0]).count == 2, "it takes pushes again")
    rig.pass(.seconds(1))
    #expect(rig.disconnected.isEmpty)
    #expect(rig.pinged.count == 1)
  }

  @Test("the first push after a long rest does not make the connection look dead")
  func quietCountsFromTheRequest() {
    var (rig, ids) = PoolRig.proven()
    rig.pass(.seconds(1800))
    rig.submit()
    rig.pass(.milliseconds(50))
    #expect(rig.pinged.isEmpty)
    #expect(rig.openSends(ids[0]).count == 1)
  }

  @Test("an hour without traffic: a ping") func idlePing() {
    var (rig, ids) = PoolRig.proven()
    rig.wait(.seconds(3599), step: .seconds(1))
    #expect(rig.pinged.isEmpty)
    rig.pass(.seconds(1))
    #expect(rig.pinged == ids)
    rig.pass(.seconds(2))
    #expect(rig.disconnected[ids[0]] == "a ping was not answered")
    #expect(rig.connected.count == 2, "it lived long: another at once")
    // The server ends one that is idle.
    (rig, ids) = PoolRig.proven()
    rig.pass(.seconds(2))
    rig.goAway(ids[0], last: 0x7fff_ffff, reason: "IdleTimeout")
    #expect(rig.disconnected[ids[0]] == "drained")
    #expect(rig.connected.count == 2)
  }

  @Test("connecting and the wait for SETTINGS have an end") func connectTimeouts() {
    var rig = PoolRig()
    rig.pass(.milliseconds(4999))
    #expect(rig.disconnected.isEmpty)
    rig.pass(.milliseconds(1))
    #expect(rig.disconnected[rig.connected[0]] == "connecting took too long")
    rig.wait(.milliseconds(150))
    let id = rig.connected[1]
    rig.run { $0.connected(id, now: $1) }
    rig.wait(.seconds(5))
    #expect(rig.disconnected[id] == "no SETTINGS frame came")
  }

  @Test(
    "who cannot connect tries later and later, by chance, and at most so late", arguments: 0..<20)
  func backoff(seed: Int) throws {
    var rig = PoolRig(seed: UInt64(seed))
    var waits: [Int64] = []
    for _ in 0..<10 {
      let count = rig.connected.count
      rig.lose(try #require(rig.connected.last))
      let start = rig.now
      while rig.connected.count == count { rig.pass(.milliseconds(1)) }
      waits.append((rig.now - start).microseconds / 1000)
    }
    for (index, wait) in waits.enumerated() {
      let most = min(5000, 100 << index)
      #expect((most / 2...most + 1).contains(Int(wait)), "try \(index) after \(wait) ms")
    }
    // One that was of use makes it begin anew.
    let id = try #require(rig.connected.last)
    rig.up(id)
    rig.submit()
    rig.answer(rig.openSends(id)[0], 200)
    rig.pass(.seconds(1))
    let count = rig.connected.count
    rig.lose(id)
    #expect(rig.connected.count == count + 1)
  }

  @Test("connections that drain are bounded") func drainingBounded() throws {
    var rig = PoolRig()
    for _ in 0..<10 {
      let id = try #require(rig.connected.last)
      rig.up(id)
      rig.submit()
      rig.answer(rig.openSends(id)[0], 200)
      rig.submit()
      rig.goAway(id, last: 0x7fff_ffff)
      rig.wait(.milliseconds(120), step: .milliseconds(10))
    }
    #expect(rig.machine.connectionIDs.count <= 6)
    #expect(rig.disconnected.values.contains("too many connections drain"))
  }

  @Test("events of a connection that is gone mean nothing") func afterTheEnd() {
    var (rig, ids) = PoolRig.proven()
    rig.submit()
    let sent = rig.openSends(ids[0])[0]
    rig.lose(ids[0])
    let results = rig.results
    rig.answer(sent, 200)
    rig.reset(sent, refused: true)
    rig.goAway(ids[0], last: 0)
    rig.read(ids[0])
    rig.settings(ids[0], 5)
    rig.lose(ids[0])
    #expect(rig.results == results)
    #expect(rig.disconnected.count == 1)
  }
}

@Suite("APNs: one provider token per connection")
struct APNsTokenMachineTests {
  private let start = Timestamp(microseconds: 1_700_000_000_000_000)
  private func minutes(_ count: Int64) -> Span { .seconds(60 * count) }

  @Test("made at the first push, kept for 40 to 50 minutes by chance", arguments: 0..<50)
  func rotation(seed: Int) throws {
    var random = SplitMix64(seed: UInt64(seed))
    var tokens = APNsTokenMachine()
    #expect(tokens.current == nil)
    var serials: [UInt32] = []
    var changes: [Timestamp] = []
    for minute in 0..<600 {
      let now = start + minutes(Int64(minute))
      let token = try #require(tokens.token(now: now, random: &random))
      #expect(now - token.mintedAt <= minutes(50), "older than it may be")
      if serials.last != token.serial {
        #expect(token.mintedAt == now)
        if let last = changes.last {
          #expect(now - last >= minutes(40))
          #expect(now - last <= minutes(51))
        }
        serials.append(token.serial)
        changes.append(now)
      }
    }
    #expect(serials == Array(1...UInt32(serials.count)))
  }

  @Test("chance makes connections differ") func jitter() throws {
    let times = (UInt64(0)..<20).map { seed in
      var random = SplitMix64(seed: seed)
      var tokens = APNsTokenMachine()
      return stride(from: Int64(0), through: 3000, by: 10).first {
        tokens.token(now: start + .seconds($0), random: &random)?.serial == 2
      }
    }
    #expect(Set(times.compactMap { $0 }).count > 10)
  }

  @Test("after a long rest the next push makes a new one") func rest() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    _ = tokens.token(now: start, random: &random)
    let token = try #require(tokens.token(now: start + minutes(600), random: &random))
    #expect(token.serial == 2)
    #expect(token.issuedAtSeconds == 1_700_036_000)
  }

  @Test("refused as too soon: back to the former token, and at its end a new connection")
  func wentBack() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    let first = try #require(tokens.token(now: start, random: &random))
    let second = try #require(tokens.token(now: start + minutes(50), random: &random))
    #expect(second.serial == first.serial + 1)
    #expect(tokens.refusedAsTooSoon(serial: second.serial, now: start + minutes(50)) == .wentBack)
    #expect(tokens.token(now: start + minutes(51), random: &random) == first)
    // Answers to others that left with the new one.
    #expect(tokens.refusedAsTooSoon(serial: second.serial, now: start + minutes(51)) == .ignore)
    #expect(tokens.token(now: start + minutes(54), random: &random) == first)
    #expect(tokens.token(now: start + minutes(55), random: &random) == nil)
  }

  @Test("refused once more, or with nothing to go back to: a new connection")
  func nothingToGoBackTo() throws {
    var random = SplitMix64(seed: 1)
    var tokens = APNsTokenMachine()
    let first = try #require(tokens.token(now: start, random: &random))
    #expect(tokens.refusedAsTooSoon(serial: first.serial, now: start) == .replaceConnection)

    _ = tokens.token(now: start + minutes(50), random: &random)
    _ = tokens.refusedAsTooSoon(serial: 2, now: start + minutes(50))
    #expect(tokens.refusedAsTooSoon(serial: 1, now: start + minutes(50)) == .replaceConnection)

    var rested = APNsTokenMachine()
    _ = rested.token(now: start, random: &random)
    let late = try #require(rested.token(now: start + minutes(70), random: &random))
    #expect(
      rested.refusedAsTooSoon(serial: late.serial, now: start + minutes(70)) == .replaceConnection)
  }
}
