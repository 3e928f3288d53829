import CallCore
import CallWire
import CallmeshClient
import FakeEdges
import FoundationEssentials
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct DeviceTests {
  let id = CallID(high: 1, low: 2)

  private func attached(_ edge: FakeEdge = FakeEdge()) async throws -> Bench {
    let bench = try Bench(edge)
    await bench.attach()
    return bench
  }

  /// The time until the next attempt, once the connection is lost.
  private func detached(_ bench: Bench) async -> Duration? {
    await bench.first { if case .detached(let retry) = $0 { retry } else { nil } }
  }

  @Test func optionsAreChecked() {
    func code(_ edges: [String], _ device: String, token: String = "t") -> CallmeshError.Code? {
      var options = DeviceOptions(edges: edges, device: device)
      options.token = token
      do throws(CallmeshError) {
        _ = try Device(options, transport: FakeEdge(), clock: ManualClock())
        return nil
      } catch {
        return error.code
      }
    }
    #expect(code(["https://edge.example"], "d") == nil)
    #expect(code([], "d") == .invalidField)
    #expect(code(["ftp://edge.example"], "d") == .invalidField)
    #expect(code(["wss://edge.example"], "") == .invalidDevice)
    #expect(code(["wss://edge.example"], "d", token: "") == .noToken)
  }

  @Test func itAttachesAndKnowsItsUserAndTheTime() async throws {
    let bench = try Bench()
    #expect(bench.device.state == .stopped && bench.device.clusterTime == nil)
    await bench.attach()
    #expect(bench.device.state == .attached && bench.device.user == "me")
    bench.clock.pass(.seconds(2))
    #expect(bench.device.clusterTime?.timeIntervalSince1970 == 1002)
  }

  @Test("the newest credentials for TURN servers are there until they expire")
  func relays() async throws {
    @Sendable func credentials(_ password: String, until second: Int64) -> RelayCredentials {
      RelayCredentials(
        urls: ["turn:turn.example"], username: "1:me", password: password,
        expiresAt: Timestamp(microseconds: second * 1_000_000))
    }
    let edge = FakeEdge { frame in
      guard case .attach(let attach) = frame.command, attach.wantsRelays else { return [] }
      var info = FakeEdge.session
      info.relays = credentials("one", until: 1010)
      return [.reply(id: frame.id, .attached(info))]
    }
    let bench = try Bench(edge) { $0.relays = true }
    #expect(bench.device.iceServers.isEmpty)
    await bench.attach()
    #expect(bench.device.iceServers.map(\.credential) == ["one"])
    edge.say(.relays(credentials("two", until: 1020)))
    _ = await bench.first { if case .relays = $0 { true } else { nil } }
    let server = try #require(bench.device.iceServers.first)
    #expect(server.urls == ["turn:turn.example"] && server.username == "1:me")
    #expect(server.credential == "two")
    bench.clock.pass(.seconds(19))
    #expect(bench.device.iceServers.count == 1)
    bench.clock.pass(.seconds(1))
    #expect(bench.device.iceServers.isEmpty)
  }

  @Test func itComesBackAndResumesItsCalls() async throws {
    let edge = FakeEdge { frame in
      switch frame.command {
      case .place(let address, _), .call(let address, .resume):
        let state = CallState(call: address.call, callee: address.callee, phase: .placed)
        return [.reply(id: frame.id, .call(state))]
      default: return []
      }
    }
    let bench = try await attached(edge)
    let call = try bench.device.place("you")
    try await call.placed()
    edge.close(.failed("broken"))
    #expect(try #require(await detached(bench)) <= .seconds(1))
    bench.clock.pass(.seconds(1))
    let session = await bench.first { if case .attached(let it) = $0 { it } else { nil } }
    #expect(session?.isAgain == true && edge.connections == 2)
    while !edge.commands.contains(.call(call.address, .resume)) { await Task.yield() }
    #expect(!call.isOver)
  }

  @Test("the clock of these tests, as a real one, also wakes whoever asks for a time that has come")
  func aTimeThatHasCome() async {
    let clock = ManualClock()
    clock.pass(.seconds(1))
    await withCheckedContinuation { woken in clock.wake(at: clock.now) { woken.resume() } }
  }

  @Test("a frame of a later version's kind is ignored; one that cannot be read ends the connection")
  func laterFrames() async throws {
    let bench = try await attached()
    // Field 100, with nothing in it.
    bench.edge.say(bytes: [0xA2, 0x06, 0x00])
    _ = try await bench.ring(id)
    #expect(bench.edge.closeCodes.isEmpty && bench.device.state == .attached)
    bench.edge.say(bytes: [0xFF])
    _ = await detached(bench)
    #expect(bench.edge.closeCodes == [1002])
  }

  @Test func aRemovedDeviceStaysAwayAndItsCallsEnd() async throws {
    let bench = try await attached()
    let call = try await bench.ring(id)
    bench.edge.close(.code(4001))
    let error = await bench.first { if case .refused(let error) = $0 { error } else { nil } }
    #expect(error?.code == .replaced)
    #expect(await bench.ended() === call)
    #expect(call.end?.isLocal == true && call.end?.error?.code == .replaced)
    bench.clock.pass(.seconds(600))
    #expect(bench.edge.connections == 1 && bench.device.state == .stopped)
    let refused = #expect(throws: CallmeshError.self) { try bench.device.place("you") }
    #expect(refused?.code == .stopped)
  }

  @Test func aCallStopsRingingWithoutAConnection() async throws {
    let bench = try await attached()
    let call = try await bench.ring(id)
    bench.edge.close(.failed("broken"), reachable: false)
    _ = await detached(bench)
    while !call.isOver {
      bench.clock.pass(.seconds(1))
      await Task.yield()
    }
    #expect(call.end?.reason == .unanswered && call.end?.missed == true)
    #expect(call.end?.isLocal == true)
    // 30 s and the grace by the cluster's clock; no sooner.
    #expect(bench.clock.now >= Timestamp(microseconds: 36_000_000))
  }

  @Test func aWokenDeviceRingsOrLearnsOfTheEnd() async throws {
    let edge = FakeEdge { frame in
      guard case .call(let address, .query) = frame.command, address.call == id else { return [] }
      return [
        .reply(id: frame.id, .call(CallState(call: address.call, callee: "me", phase: .unknown)))
      ]
    }
    let bench = try Bench(edge)
    let call = try #require(bench.device.wake(Address(call: id), isWanted: true))
    #expect(call.isWanted)
    #expect(await bench.ended() === call)
    #expect(call.end?.reason == .failed)
    #expect(bench.device.wake(Address(call: id)) == nil)
    let ringing = CallID(high: 3, low: 4)
    let woken = try #require(bench.device.wake(Address(call: ringing)))
    #expect(woken.state == .waking && !woken.isWanted)
    #expect(try await bench.ring(ringing) === woken)
    bench.device.wake(Address(call: ringing), isWanted: true)
    let wanted = await bench.first { if case .wanted(let call) = $0 { call } else { nil } }
    #expect(wanted === woken && woken.isWanted)
  }

  @Test func tokensAreFetched() async throws {
    let asked = Mutex(0)
    let bench = try Bench {
      $0.token = ""
      $0.getToken = {
        let count = asked.withLock { asked in
          asked += 1
          return asked
        }
        if count == 1 { throw Bench.NoCall() }
        return "token \(count)"
      }
    }
    bench.device.start()
    let error = await bench.first { if case .tokenFailed(let error) = $0 { error } else { nil } }
    #expect(error?.code == .noToken)
    while bench.device.state != .attached {
      bench.clock.pass(.milliseconds(100))
      await Task.yield()
    }
    guard case .attach(let attach)? = bench.edge.commands.first else {
      Issue.record("no attach")
      return
    }
    #expect(attach.token == "token 2")
  }

  @Test func stoppingEndsCallsCommandsAndSequences() async throws {
    let bench = try await attached()
    let call = try await bench.ring(id)
    let calls = call.events
    let alerting = Task { try await call.alerting() }
    while !bench.edge.commands.contains(.call(call.address, .alerting)) { await Task.yield() }
    bench.device.stop()
    await #expect(throws: CallmeshError.self) { try await alerting.value }
    var last: Call.Event?
    for await event in calls { last = event }
    #expect(last == .state(.ended))
    for await _ in bench.events {}
    #expect(bench.edge.commands.last == .detach)
    #expect(bench.edge.closeCodes == [1001])
    for await _ in bench.device.events { Issue.record("an event behind the end") }
  }

  @Test func eachReaderGetsEachEvent() async throws {
    let bench = try Bench()
    let other = bench.device.events
    await bench.attach()
    var isAgain: Bool?
    for await case .attached(let session) in other {
      isAgain = session.isAgain
      break
    }
    #expect(isAgain == false)
  }

  @Test func unreadableFramesEndTheConnection() async throws {
    let bench = try Bench { $0.encoding = .json }
    bench.device.start()
    bench.edge.say(.notice(Notice(kind: .goAway, message: "")))
    _ = await detached(bench)
    #expect(bench.edge.closeCodes.first == 1002)
  }

  /// A timer in whose place an earlier one was set must not set the next one as well.
  @Test func timersDoNotMultiply() async throws {
    let edge = FakeEdge { _ in [] }
    let bench = try Bench(edge)
    await bench.attach()
    let call = CallID(high: 1, low: 2)
    _ = try await bench.ring(call)
    for number in UInt64(2)..<50 {
      bench.edge.say(call, number, .signal(Signal(index: number, kind: .candidate, body: "c")))
      bench.clock.pass(.milliseconds(200))
    }
    for _ in 0..<50 { bench.clock.pass(.seconds(1)) }
    #expect(bench.clock.wakeCount <= 4)
  }
}
