import CallCore
import Testing

/// Every attached device rings, so the limit stands where a device attaches or registers.
@Suite struct DeviceLimitTests {
  private func full(_ limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for number in 0..<limits.legsPerCall { bench.attach("d\(number)") }
    _ = bench.take()
    return bench
  }

  private func attach(_ bench: inout Bench, _ device: String, _ generation: UInt64 = 0) -> Reply? {
    bench.say(.attach(Attach()), device: device, session: Bench.session(device, generation))
  }

  private func register(_ bench: inout Bench, _ device: String, devicesPerUser: UInt32 = 0) {
    let request = Command.Body.register(RegistrationRequest())
    bench.say(request, device: device, devicesPerUser: devicesPerUser)
    bench.answerStores()
  }

  private func registered(_ bench: Bench) -> Set<String> {
    let devices = bench.shard.inspect(user: UserKey(app: Bench.app, user: "bob"))?.devices ?? []
    return Set(devices.filter { $0.registration != nil }.map(\.device.text))
  }

  private func tabs(_ numbers: ClosedRange<Int>) -> [String] { numbers.map { "tab\($0)" } }

  @Test func theTwentyFirstDeviceIsRefused() {
    var bench = full()
    #expect(attach(&bench, "d20")?.error == .tooManyDevices)
    #expect(
      bench.say(.attach(Attach()), user: "carol", device: "d20", callee: "carol")?.error == nil,
      "each user has a limit of its own")
    bench.place()
    for number in 0..<20 { #expect(bench.invites("d\(number)").count == 1) }
    #expect(bench.deliveries(to: "d20").isEmpty)
  }

  @Test func whoIsInComesBackAndWhoLeavesMakesRoom() {
    var bench = full()
    #expect(attach(&bench, "d7", 2)?.error == nil, "another session of a device that is in")
    bench.say(.sessionClosed(graceful: false), device: "d3")
    #expect(attach(&bench, "d20")?.error == nil)
    #expect(attach(&bench, "d3", 2)?.error == .tooManyDevices)
  }

  @Test func registeredDevicesCountAsAttachedOnesDo() {
    var bench = Bench()
    for number in 0..<10 {
      bench.enrol("r\(number)", voip: "t\(number)", can: [])
      bench.say(.sessionClosed(graceful: true), device: "r\(number)")
    }
    for number in 0..<10 { #expect(attach(&bench, "d\(number)")?.error == nil) }
    #expect(attach(&bench, "d10")?.error == .tooManyDevices)
    #expect(attach(&bench, "r4")?.error == nil, "a registered one is in")
    // By HTTP, without a session: the longest unseen registration gives way, so there is room.
    bench.pass(.seconds(1))
    let request = RegistrationRequest(voipToken: Bench.voip("t10"))
    #expect(bench.say(.register(request), device: "r10")?.error == nil)
  }

  @Test func aRegistrationForWhichNothingGivesWayIsRefused() {
    var bench = full()
    #expect(bench.say(.register(RegistrationRequest()), device: "new")?.error == .tooManyDevices)
    #expect(bench.say(.register(RegistrationRequest()), device: "d3")?.error == nil)
  }

  /// As the file of keys says for an app: never more than the cluster allows.
  @Test(arguments: [(0, 20), (2, 4), (10, 20), (100, 20)] as [(UInt32, Int)])
  func anAppMayAllowFewer(devices: UInt32, expected: Int) {
    var bench = Bench()
    func attach(_ device: String) -> Reply? {
      bench.say(.attach(Attach()), device: device, devicesPerUser: devices)
    }
    for number in 0..<expected { #expect(attach("d\(number)")?.error == nil) }
    #expect(attach("more")?.message == refusal(expected))
  }

  @Test func theClusterMayAllowFewer() {
    var bench = full(.with { $0.devicesPerUser = 1 })
    #expect(attach(&bench, "d2")?.message == refusal(2))
  }

  private func refusal(_ devices: Int) -> String {
    "At most \(devices) devices of one user are attached or registered."
  }

  @Test func ofAnAppWithFewerTheLongestUnseenGivesWayAndIsTold() {
    var bench = Bench()
    for number in 0..<4 {
      bench.pass(.seconds(1))
      open("d\(number)", &bench)
      register(&bench, "d\(number)", devicesPerUser: 2)
      let gone = number < 2 ? [] : ["d\(number - 2)"]
      for effect in bench.take() {
        switch effect {
        case .reply(_, _, .registered(_, let removed, _)): #expect(removed.map(\.text) == gone)
        case .notice(let session, let notice):
          #expect(gone.map { Bench.session($0) } == [session] && notice.kind == .deviceRemoved)
        default: break
        }
      }
    }
    #expect(registered(bench) == ["d2", "d3"])
  }

  /// Tabs of one browser take its one subscription from each other. What is left of each stays behind without a token.
  @Test func whoCannotBeWokenGivesWayFirst() {
    var bench = Bench()
    bench.enrol("phone", voip: "v1")
    for tab in tabs(0...9) {
      bench.pass(.seconds(60))
      register(&bench, tab, devicesPerUser: 3)
    }
    #expect(registered(bench) == ["phone", "tab8", "tab9"])
    // One that is there can be reached without a token.
    bench.attach("tab8")
    register(&bench, "tab10", devicesPerUser: 3)
    #expect(registered(bench) == ["phone", "tab8", "tab10"])
  }

  /// Attaches a device as an edge does, which gives the time.
  private func open(_ device: String, _ bench: inout Bench) {
    bench.say(.attach(Attach(attachedAt: bench.now)), device: device)
  }

  /// An open tab rings by its socket, registered or not; a sleeping phone rings by its registration alone.
  @Test func openTabsDoNotDisplaceASleepingPhone() {
    var bench = Bench()
    bench.enrol("phone", voip: "v1")
    for tab in tabs(0...9) {
      bench.pass(.seconds(60))
      open(tab, &bench)
      bench.enrol(tab)
    }
    #expect(bench.shard.counts.registrations == 10)
    #expect(registered(bench) == Set(tabs(1...9) + ["phone"]), "the oldest tab gives way")
    #expect(bench.registration("phone")?.ringToken?.token == "v1")
    // One that is away gives way before those that are there, although it is newer.
    bench.say(.sessionClosed(graceful: true), device: "tab9")
    bench.pass(.seconds(60))
    open("tab10", &bench)
    bench.enrol("tab10")
    #expect(registered(bench) == Set(tabs(1...8) + ["phone", "tab10"]))
    bench.place()
    #expect(bench.pushes("phone") == [.ring])
    #expect(bench.invites("tab0").count == 1, "without its registration")
    #expect(bench.invites("tab10").count == 1)
  }

  /// The newest of them has the subscription; what it was taken from gives way like any tab without one.
  @Test(arguments: [true, false]) func oneSubscriptionUnderTenIds(areOpen: Bool) {
    var bench = Bench()
    bench.enrol("phone", voip: "v1")
    var owner: TokenOwner?
    for tab in tabs(0...9) {
      bench.pass(.seconds(60))
      if areOpen { open(tab, &bench) }
      bench.say(
        .register(RegistrationRequest(alertToken: Bench.alert("shared", .webPush))), device: tab)
      bench.answerStores(owner: owner)
      owner = TokenOwner(
        user: UserKey(app: Bench.app, user: "bob"), device: DeviceID(tab), claimedAt: bench.now)
    }
    #expect(registered(bench) == Set(tabs(1...9) + ["phone"]))
    #expect(bench.registration("phone")?.ringToken?.token == "v1")
    #expect(bench.registration("tab9")?.ringToken?.token == "shared")
    #expect(tabs(1...8).allSatisfy { bench.registration($0)?.ringToken == nil })
    bench.place()
    #expect(bench.pushes("phone") == [.ring])
  }

  /// Where all can be woken, the one that was unseen for longest gives way, as ever.
  @Test func whereAllCanBeWokenTheLongestUnseenGivesWay() {
    var bench = Bench()
    for number in 0..<11 {
      bench.pass(.seconds(60))
      open("d\(number)", &bench)
      bench.enrol("d\(number)", voip: "v\(number)")
      if number == 3 { bench.say(.sessionClosed(graceful: true), device: "d3") }
    }
    let others = Set((0...10).map { "d\($0)" }).subtracting(["d3"])
    #expect(registered(bench) == others, "d3 is the only one that is away")
  }

  /// Each of them would lose the calls that come while it sleeps, and the newcomer would gain none.
  @Test(arguments: [true, false]) func whoCannotBeWokenDisplacesNobodyWhoCan(isAttached: Bool) {
    var bench = Bench()
    let phones = (0...9).map { "r\($0)" }
    for phone in phones { bench.enrol(phone, voip: phone) }
    if isAttached { open("tab", &bench) }
    let request = RegistrationRequest(deviceName: "A tab")
    let refused = bench.say(.register(request), device: "tab")
    #expect(refused == .error(bench.shard.limits.tooManyWakeableDevices))
    #expect(refused?.error == .tooManyDevices)
    #expect(refused?.message?.hasPrefix("All 10 registered devices") == true)
    bench.answerStores()
    #expect(registered(bench) == Set(phones))
    bench.place()
    #expect(bench.invites("tab").count == (isAttached ? 1 : 0))
    #expect(bench.pushes("r0") == [.ring])
    // One that is in says the same again, and one with a token takes the place of the longest unseen.
    #expect(bench.say(.register(RegistrationRequest()), device: "r3")?.error == nil)
    bench.answerStores()
    #expect(bench.say(.register(request), device: "tab")?.error == nil, "r3 cannot be woken now")
  }

  /// A session that an edge announces to a new owner was let in by the former one.
  @Test func announcedSessionsAreTaken() {
    var bench = full()
    bench.say(.attach(Attach(announce: true)), device: "d20")
    #expect(bench.shard.counts.sessions == 21)
  }

  /// One user's sessions were without a bound on this way, and each that closed looked at all of them.
  @Test func announcedSessionsHaveALimitToo() {
    var bench = Bench()
    for number in 0..<1000 { bench.say(.attach(Attach(announce: true)), device: "d\(number)") }
    #expect(bench.shard.counts.sessions == 40)
    #expect(bench.notices.allSatisfy { $0 == .deviceRemoved })
    #expect(Set(bench.closed) == Set((40..<1000).map { Bench.session("d\($0)") }))
    // Who is in is announced again, and may attach anew.
    bench.say(.attach(Attach(announce: true)), device: "d7", session: Bench.session("d7", 2))
    #expect(attach(&bench, "d8", 2)?.error == nil)
    #expect(bench.shard.counts.sessions == 40)
  }

  @Test("R5: devices that come and go in mid-ring all ring") func devicesThatComeAndGo() {
    var bench = Bench.ringing("b1")
    for number in 0..<60 {
      bench.attach("tab\(number)")
      #expect(bench.invites("tab\(number)").count == 1)
      bench.say(.sessionClosed(graceful: true), device: "tab\(number)")
    }
    #expect(bench.say(.answer(), "b1")?.won == true)
  }
}
