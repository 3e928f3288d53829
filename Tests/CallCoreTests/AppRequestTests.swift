import CallCore
import Testing

/// Requests of an app's server to a shard.
@Suite struct AppRequestTests {
  private let bob = UserKey(app: Bench.app, user: "bob")

  // MARK: Ends

  @Test func aRingingCallEndsAsCancelledAndEveryDeviceIsTold() {
    var bench = Bench.ringing("b1", "b2")
    let ended = bench.server(.end(Bench.callID))?.appCall
    #expect(ended?.state.phase == .ended && ended?.state.reason == .cancelled)
    #expect(ended?.state.by == nil && ended?.endedByApp == true)
    // Nobody answered, so the callee missed it.
    #expect(ended?.state.missed == true)
    let stop = Stop(reason: .cancelled, missed: true)
    #expect(bench.stops("b1") == [stop] && bench.stops("b2") == [stop])
    // To its caller no call is missed.
    #expect(bench.stops("alice1") == [Stop(reason: .cancelled)])
    #expect(
      bench.ends == [
        EndedFacts(reason: .cancelled, by: nil, at: bench.now, missed: true, byApp: true)
      ])
  }

  @Test func anAnsweredCallEndsAsHungUp() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.say(.answer(), "b1")?.won == true)
    _ = bench.take()
    let ended = bench.server(.end(Bench.callID))?.appCall
    #expect(ended?.state.reason == .hungUp && ended?.state.missed == false)
    #expect(ended?.answeredBy?.device == "b1")
    #expect(bench.stops("b1") == [Stop(reason: .hungUp)])
    #expect(bench.stops("alice1") == [Stop(reason: .hungUp)])
    // It has lost already, and learns nothing new.
    #expect(bench.stops("b2") == [])
  }

  @Test func theFirstEndCounts() {
    for (reason, end): (EndReason, (inout Bench) -> Void) in [
      (.cancelled, { $0.caller(.cancel) }),
      (.declined, { $0.say(.decline(.everywhere), "b1") }),
    ] {
      var bench = Bench.ringing("b1")
      end(&bench)
      let state = bench.server(.end(Bench.callID))?.appCall
      #expect(state?.state.reason == reason && state?.endedByApp == false)
      #expect(state?.state.by != nil)
      #expect(bench.ends.count == 1)
    }
  }

  @Test func repeatingAnEndChangesNothing() {
    var bench = Bench.ringing("b1")
    let first = bench.server(.end(Bench.callID))
    let journalled = bench.journal.count
    _ = bench.take()
    bench.now = bench.now + .seconds(1)
    #expect(bench.server(.end(Bench.callID)) == first)
    #expect(bench.journal.count == journalled)
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test func aNewOwnerKnowsWhoEndedIt() {
    var bench = Bench.ringing("b1")
    bench.server(.end(Bench.callID))
    for var next in [bench, bench.takenOver(), bench.restoredFromCheckpoint()].map({ $0.begun() }) {
      #expect(next.server(.call(Bench.callID))?.appCall?.endedByApp == true)
      #expect(next.server(.end(Bench.callID))?.appCall?.state.reason == .cancelled)
    }
  }

  @Test func recordAndTimelineSayThatTheAppsServerDidIt() {
    var bench = Bench()
    bench.shard.storedParts = .record
    bench.attach("b1")
    bench.place()
    bench.server(.end(Bench.callID))
    let record = bench.shard.record(of: Bench.callID)
    #expect(record?.end?.byApp == true)
    #expect(record?.events.last { $0.kind == .endedByApp }?.who == .call)
    let timeline = bench.shard.inspect(call: Bench.callID)?.timeline ?? []
    #expect(timeline.contains { $0.what == "ended by the app's server" })
    #expect(!timeline.contains { $0.what == "cancelled" })
  }

  @Test func aCallOfAnotherUserOrAppIsUnknown() {
    var bench = Bench.ringing("b1")
    #expect(bench.server(.end(Bench.callID), "carol")?.error == .unknownCall)
    #expect(bench.server(.call(Bench.callID), "carol")?.error == .unknownCall)
    #expect(bench.server(.end(Bench.callID), app: "other")?.error == .unknownCall)
    #expect(bench.server(.end(CallID(high: 9, low: 9)))?.error == .unknownCall)
    #expect(bench.ends.isEmpty)
  }

  // MARK: Lists

  @Test func aUserHasItsDevicesAndTheCallsToIt() {
    var bench = Bench.attached("b1")
    bench.enrol("b2", voip: "t2")
    let registeredAt = bench.now
    bench.place()
    bench.now = bench.now + .seconds(5)
    guard case .app(.user(let user)) = bench.server(.user) else {
      Issue.record("no user")
      return
    }
    #expect(user.user == "bob")
    #expect(user.devices.map(\.device) == ["b1", "b2"])
    #expect(user.devices[0].attachedAt != nil && user.devices[0].registeredAt == nil)
    #expect(user.devices[0].seenAt == bench.now)
    #expect(user.devices[1].attachedAt == nil && user.devices[1].registeredAt == registeredAt)
    #expect(user.devices[1].seenAt == registeredAt && user.devices[1].name == "Bob's b2")
    #expect(user.devices[1].voipPush == .apns && user.devices[1].alertPush == .none)
    #expect(user.calls.map(\.state.call) == [Bench.callID])
    #expect(user.calls.first?.caller.user == "alice")
  }

  @Test func aUserOfWhomNothingIsKnownHasNothing() {
    var bench = Bench()
    #expect(bench.server(.user, "nobody") == .app(.user(AppUser(user: "nobody"))))
  }

  @Test func liveCallsAreThoseToTheUserAndThoseOfAllItsDevices() {
    var bench = Bench.attached("b1")
    let ids = (1...4).map { CallID(high: 1, low: $0) }
    for (id, (user, device)) in zip(
      ids, [("alice", "alice1"), ("alice", "alice2"), ("carol", "c1"), ("alice", "alice1")])
    {
      bench.place(id, user: user, device: device)
      bench.now = bench.now + .seconds(1)
    }
    bench.caller(.call(ids[3], .cancel))
    func calls(_ user: String) -> [CallID]? { bench.server(.calls(shard: 0), user)?.appCalls }
    // The newest first.
    #expect(calls("alice") == [ids[1], ids[0]])
    #expect(calls("bob") == [ids[2], ids[1], ids[0]])
    #expect(calls("carol") == [ids[2]])
    #expect(calls("dave") == [])
    bench.server(.end(ids[1]))
    #expect(calls("alice") == [ids[0]])
  }

  @Test func aCallToTheUsersOwnDevicesCountsOnce() {
    var bench = Bench.attached("b1", "b2")
    bench.say(.place(PlaceRequest(call: Bench.callID)), device: "b1")
    #expect(bench.server(.calls(shard: 0))?.appCalls == [Bench.callID])
  }

  @Test func noMoreCallsAreListedThanAnAnswerHolds() {
    let calls = (0..<UInt64(AppReply.callsMax) + 5).map {
      AppCall(
        state: CallState(call: CallID(high: 0, low: $0), callee: "bob", phase: .ringing),
        caller: Party(user: "a", device: "a1"), placedAt: Timestamp(microseconds: Int64($0) * 1000))
    }
    let listed = calls.newest()
    #expect(listed.count == AppReply.callsMax)
    #expect(listed.first?.state.call.low == UInt64(AppReply.callsMax) + 4)
    #expect(listed.last?.state.call.low == 5)
  }

  // MARK: The app's live calls

  /// Follows the list to its end, as an edge asks one shard.
  private func pages(_ bench: inout Bench, of size: Int, app: String = Bench.app) -> [[CallID]] {
    var (pages, before) = ([[CallID]](), AppCallPlace?.none)
    while true {
      let query = LiveCallsQuery(before: before, limit: UInt32(size))
      guard case .app(.calls(let page)) = bench.server(.live(query), "", app: app) else {
        Issue.record("no calls")
        return pages
      }
      if page.calls.isEmpty { return pages }
      pages.append(page.calls.map(\.state.call))
      before = page.calls.last?.place
    }
  }

  @Test func theLiveCallsOfAnAppAreListedPageByPage() {
    var bench = Bench.attached("b1")
    let ids = (1...5).map { CallID(high: 7, low: UInt64($0)) }
    for (index, id) in ids.enumerated() {
      // The last two are of one millisecond: they are ordered by id.
      if index < 4 { bench.now = bench.now + .milliseconds(10) }
      bench.say(.place(PlaceRequest(call: id)), user: "alice\(index)", device: "a", callee: "bob")
    }
    let newest = [ids[3], ids[4], ids[2], ids[1], ids[0]]
    #expect(pages(&bench, of: 2) == [Array(newest[0..<2]), Array(newest[2..<4]), [ids[0]]])
    #expect(pages(&bench, of: 100) == [newest])
    #expect(pages(&bench, of: 100, app: "other") == [])
    // A call that ends meanwhile is left out, and the place of one that is gone is still a place.
    bench.server(.end(ids[2]))
    let place = AppCallPlace(placedAtMs: bench.now.milliseconds - 10, call: ids[2], callee: "bob")
    let rest = bench.server(.live(LiveCallsQuery(before: place, limit: 9)))
    #expect(rest?.appCalls == [ids[1], ids[0]])
  }

  @Test(
    "a place's text is read as it was written, and no other text is one",
    arguments: [
      "", "7", "7.8", "7.\(Bench.callID)", "7.\(Bench.callID).", "-7.\(Bench.callID).bob",
      "!.\(Bench.callID).bob", "zzzzzzzzzzzzzz.\(Bench.callID).bob", "7.8.bob",
    ])
  func places(strange: String) {
    for callee in ["bob", "a.b", "böb", "b b"] {
      let place = AppCallPlace(placedAtMs: 1_790_000_000_123, call: Bench.callID, callee: callee)
      #expect(AppCallPlace(text: place.text) == place)
    }
    #expect(AppCallPlace(text: strange) == nil)
  }

  @Test("places of users whose names are equal by Unicode's rules are told apart") func likeNames()
  {
    let places = ["e\u{301}", "\u{e9}"].map {
      AppCallPlace(placedAtMs: 1, call: Bench.callID, callee: $0)
    }
    #expect(places[0] < places[1] && places[0] != places[1])
  }

  // MARK: Removal

  @Test func aRemovedDeviceLosesRegistrationAndSession() {
    var bench = Bench.attached("b1")
    bench.enrol("b1")
    _ = bench.take()
    // Durable before the reply, and before anybody notices.
    #expect(bench.server(.remove("b1")) == nil)
    #expect(bench.closed.isEmpty)
    bench.answerStores()
    #expect(bench.notices == [.deviceRemoved])
    #expect(bench.closed == [Bench.session("b1")])
    #expect(bench.effects.contains(.reply(Bench.serverSession, request: 1, .done)))
    #expect(bench.shard.inspect(user: bob) == nil)
    // The edge reports the end of the session as well.
    bench.say(.sessionClosed(graceful: false), device: "b1")
    #expect(bench.shard.inspect(user: bob) == nil)
    #expect(bench.server(.remove("b1")) == .done)
  }

  @Test func aRemovalThatTheStoreDoesNotTakeIsTriedAgain() {
    var bench = Bench.attached("b1")
    bench.enrol("b1")
    _ = bench.take()
    #expect(bench.server(.remove("b1")) == nil)
    let token = bench.effects.compactMap { effect -> UInt64? in
      if case .remove(_, _, let token) = effect { token } else { nil }
    }
    #expect(token.count == 1)
    bench.run { $0.registrationStored(token: token[0], ok: false, now: $1, into: &$2) }
    #expect(bench.firstReply()?.error == .tryAgain)
    #expect(bench.closed.isEmpty)
    #expect(bench.shard.inspect(user: bob)?.devices.first?.registration != nil)
  }

  @Test func theOtherDevicesRingOn() {
    var bench = Bench.ringing("b1", "b2")
    _ = bench.take()
    #expect(bench.server(.remove("b1")) == .done)
    #expect(bench.closed == [Bench.session("b1")])
    #expect(bench.server(.call(Bench.callID))?.appCall?.state.phase == .placed)
    // The last one is gone, as if it had ended its session: nobody waits for it.
    bench.server(.remove("b2"))
    #expect(bench.server(.call(Bench.callID))?.appCall?.state.reason == .unreachable)
  }
}

extension Bench {
  fileprivate static let serverSession = SessionRef(edge: 1, number: 1 << 50)

  /// Asks as the app's server.
  @discardableResult
  mutating func server(
    _ request: AppRequest, _ user: String = "bob", app: String = Bench.app
  ) -> Reply? {
    let key = UserKey(app: app, user: user)
    let session = Self.serverSession
    let command = Command(
      session: session, request: 1, user: key, device: "", callee: key, body: .app(request))
    let from = effects.count
    run { $0.handle(command, now: $1, into: &$2) }
    for case .reply(session, 1, let reply) in effects[from...] { return reply }
    return nil
  }
}
