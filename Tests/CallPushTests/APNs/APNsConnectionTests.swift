import CallCore
import CallPush
import Testing

@Suite("APNs pool: connections")
struct APNsConnectionTests {
  @Test("pushes are held until the first SETTINGS frame")
  func heldUntilSettings() {
    var rig = PoolRig()
    let push = rig.submit()
    let id = rig.connected[0]
    rig.run { $0.connected(id, now: $1) }
    rig.pass(.seconds(1))
    #expect(rig.sent.isEmpty)
    rig.settings(id, 1)
    #expect(rig.sent.map(\.push) == [push])
  }

  @Test("one at a time until the first 200, however many the peer allows")
  func probing() {
    var rig = PoolRig()
    let id = rig.connected[0]
    for _ in 0..<5 { _ = rig.submit() }
    rig.up(id, maxStreams: 1000)
    #expect(rig.sent.count == 1)
    rig.answer(rig.sent[0], 400, "BadDeviceToken")
    #expect(rig.sent.count == 2, "a refused push proves nothing")
    #expect(rig.openSends(id).count == 1)
    rig.answer(rig.sent[1], 200)
    #expect(rig.openSends(id).count == 3)
  }

  @Test("as many as SETTINGS allow, and as our own cap does")
  func limits() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(inFlight: 4), maxStreams: 2)
    for _ in 0..<20 { _ = rig.submit() }
    #expect(rig.openSends(ids[0]).count == 2)
    rig.settings(ids[0], 3)
    #expect(rig.openSends(ids[0]).count == 3)
    rig.settings(ids[0], 1000)
    #expect(rig.openSends(ids[0]).count == 4)
    // A frame that does not mention streams changes nothing.
    rig.settings(ids[0], nil)
    rig.settings(ids[0], 1)
    rig.answer(rig.openSends(ids[0])[0], 200)
    rig.answer(rig.openSends(ids[0])[0], 200)
    rig.answer(rig.openSends(ids[0])[0], 200)
    #expect(rig.sent.count == 4, "none before there are fewer than allowed")
    rig.answer(rig.openSends(ids[0])[0], 200)
    #expect(rig.sent.count == 5)
    rig.settings(ids[0], 0)
    rig.answer(rig.openSends(ids[0])[0], 200)
    #expect(rig.sent.count == 5)
  }

  @Test("first SETTINGS without a limit: ours holds")
  func noAdvertisedLimit() {
    var rig = PoolRig(limits: PoolRig.limits(inFlight: 7))
    rig.up(rig.connected[0], maxStreams: nil)
    for _ in 0..<10 { _ = rig.submit() }
    rig.answer(rig.sent[0], 200)
    #expect(rig.openSends(rig.connected[0]).count == 7)
  }

  @Test("a burst is spread over the connections")
  func spread() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 3))
    for _ in 0..<9 { _ = rig.submit() }
    #expect(ids.map { rig.openSends($0).count } == [3, 3, 3])
  }

  @Test(
    "GOAWAY: unseen streams go elsewhere at once, the others are answered, the next connection opens"
  )
  func goAway() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
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

  @Test("GOAWAY in two phases")
  func twoPhases() {
    var (rig, ids) = PoolRig.proven()
    for _ in 0..<4 { _ = rig.submit() }
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
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    for _ in 0..<8 { _ = rig.submit() }
    let there = rig.openSends(ids[0])
    rig.goAway(ids[0], last: there[1].stream, error: true)
    #expect(rig.disconnected[ids[0]] != nil)
    #expect(rig.notes.filter { $0 == .requeued }.count == 2)
    #expect(rig.notes.filter { $0 == .repeated }.count == 2)
    #expect(rig.openSends(ids[1]).count == 8)
  }

  @Test("what a draining connection does not answer in its grace is sent once more")
  func drainGrace() {
    var limits = PoolRig.limits(connections: 2)
    limits.attemptTimeout = .seconds(30)
    limits.drainGrace = .seconds(1)
    var (rig, ids) = PoolRig.proven(limits: limits)
    for _ in 0..<2 { _ = rig.submit() }
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
    var limits = PoolRig.limits(connections: 2)
    limits.attemptTimeout = .seconds(30)
    var (rig, ids) = PoolRig.proven(limits: limits)
    let first = rig.submit()
    let second = rig.submit()
    #expect(rig.openSends(ids[0]).map(\.push) == [first])
    rig.pass(.milliseconds(1000))
    rig.answer(rig.openSends(ids[1])[0], 200)
    #expect(rig.outcome(second) == .accepted)
    rig.pass(.milliseconds(1000))
    #expect(rig.pinged == [ids[0]])
    for _ in 0..<3 { _ = rig.submit() }
    #expect(rig.openSends(ids[1]).count == 3, "the quiet one gets none")
    rig.pass(.milliseconds(1999))
    #expect(rig.disconnected[ids[0]] == nil)
    rig.read(ids[1])
    rig.pass(.milliseconds(1))
    #expect(rig.disconnected[ids[0]] == "a ping was not answered")
    #expect(rig.sent.last?.push == first)
    #expect(rig.sent.last?.connection == ids[1])
  }

  @Test("any bytes answer a ping")
  func pingAnswered() {
    var limits = PoolRig.limits()
    limits.attemptTimeout = .seconds(30)
    var (rig, ids) = PoolRig.proven(limits: limits)
    _ = rig.submit()
    rig.pass(.seconds(2))
    #expect(rig.pinged == ids)
    _ = rig.submit()
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
    _ = rig.submit()
    rig.pass(.milliseconds(50))
    #expect(rig.pinged.isEmpty)
    #expect(rig.openSends(ids[0]).count == 1)
  }

  @Test("an hour without traffic: a ping")
  func idlePing() {
    var (rig, ids) = PoolRig.proven()
    rig.wait(.seconds(3599), step: .seconds(1))
    #expect(rig.pinged.isEmpty)
    rig.pass(.seconds(1))
    #expect(rig.pinged == ids)
    rig.pass(.seconds(2))
    #expect(rig.disconnected[ids[0]] == "a ping was not answered")
    #expect(rig.connected.count == 2, "it lived long: another at once")
  }

  @Test("connecting and the wait for SETTINGS have an end")
  func connectTimeouts() {
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
    _ = rig.submit()
    rig.answer(rig.openSends(id)[0], 200)
    rig.pass(.seconds(1))
    let count = rig.connected.count
    rig.lose(id)
    #expect(rig.connected.count == count + 1)
  }

  @Test("one connection that cannot be opened delays nobody")
  func deadConnection() {
    var rig = PoolRig(limits: PoolRig.limits(connections: 2))
    rig.lose(rig.connected[0])
    rig.up(rig.connected[1])
    let first = rig.submit()
    rig.answer(rig.sent[0], 200)
    let more = (0..<5).map { _ in rig.submit() }
    for sent in rig.openSends(rig.connected[1]) { rig.answer(sent, 200) }
    #expect(([first] + more).allSatisfy { rig.outcome($0) == .accepted })
  }

  @Test("connections that drain are bounded")
  func drainingBounded() throws {
    var rig = PoolRig()
    for _ in 0..<10 {
      let id = try #require(rig.connected.last)
      rig.up(id)
      _ = rig.submit()
      rig.answer(rig.openSends(id)[0], 200)
      _ = rig.submit()
      rig.goAway(id, last: 0x7fff_ffff)
      rig.wait(.milliseconds(120), step: .milliseconds(10))
    }
    #expect(rig.machine.connectionIDs.count <= 6)
    #expect(rig.disconnected.values.contains("too many connections drain"))
  }

  @Test("events of a connection that is gone mean nothing")
  func afterTheEnd() {
    var (rig, ids) = PoolRig.proven()
    _ = rig.submit()
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
