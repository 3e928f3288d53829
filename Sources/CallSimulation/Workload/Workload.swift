internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// People with their devices, who call each other.
final class Workload: FaultSource {
  struct Running {
    var script: CallScript
    /// nil while that side of a call that the app's server placed is vacant.
    var caller: SimDevice?
    var callees: [SimDevice]
    var request: PlaceRequest
    var address: CallAddress
    var winner: SimDevice?
    var isAnswered = false
    /// Devices that have asked to take it over.
    var pulling: Set<Who> = []
    /// Devices that a transfer has rung.
    var rungForTransfer: Set<Who> = []
    /// The call about which its caller asks in this one.
    var about: CallID?
  }

  let world: SimWorld
  let options: SimOptions
  var random: SimRandom
  /// By user.
  private(set) var devices: [(user: String, devices: [SimDevice])] = []
  var running: [CallID: Running] = [:]
  private var signalCounts: [Who: Int] = [:]
  private(set) var isActive = true
  /// The newest entry of the user's history that each device has read.
  var newestRead: [Who: HistoryCursor] = [:]
  /// nil: the world has no push.
  var push: SimPushPeople?
  /// nil: the app's server asks nothing.
  var server: SimAppServer?

  var allDevices: [SimDevice] { devices.flatMap(\.devices) }

  init(_ world: SimWorld, _ options: SimOptions) {
    self.world = world
    self.options = options
    random = world.fork("workload")
  }

  // MARK: People

  /// Gives people their devices.
  func populate(_ make: (Who) -> SimDevice) {
    let people = random.number(10...SimOptions.userCount)
    var guests = world.fork("guests")
    for number in 0..<people {
      let user = SimOptions.user(number)
      // One has none, some have one, most have more.
      let count = number == 0 ? 0 : random.pick([1, 2, 2, 3, 3, 4]) ?? 2
      let owned = (0..<count).map { make(Who(user, "d\($0)")) }
      // Some never register: they are reached by their sockets, or not at all.
      let isGuest = guests.chance(0.25)
      for device in owned {
        device.registers = !isGuest && !SimOptions.onlyPlaces(device.who)
        prepare(device)
      }
      devices.append((user, owned))
    }
  }

  private func prepare(_ device: SimDevice) {
    world.schedule(after: random.span(.zero, .seconds(2))) { device.start() }
    if options.intensity != .calm { trouble(device) }
  }

  /// Mishaps of a device, independent of calls.
  private func trouble(_ device: SimDevice) {
    every(options.intensity.seconds(60, 60, 20)) { people in
      switch people.random.below(5) {
      case 0: device.breakLink(silently: people.random.chance(0.5))
      case 1: people.away(device, .goOffline(people.pause(to: 10)))
      case 2: people.away(device, .sleep(people.pause(to: 20)))
      case 3: people.away(device, .restart(people.pause(to: 8), woken: false))
      default: people.away(device, .signOff(people.random.span(.milliseconds(500), .seconds(8))))
      }
    }
  }

  private func pause(to seconds: Int64) -> Span {
    random.span(.milliseconds(200), .seconds(seconds))
  }

  // MARK: Calls

  func begin() {
    beginServing()
    if options.hasGroups { callGroups(world.fork("calls to groups")) }
    if options.keepsHistory { readHistories(world.fork("histories")) }
    every(options.intensity.seconds(0.9, 0.6, 0.6)) { $0.place() }
  }

  private func place() {
    guard let callee = random.pick(devices),
      let caller = random.pick(devices.filter { !$0.devices.isEmpty })?.devices.randomElement(
        using: &random), caller.isOn, !caller.isAsleep
    else { return }
    let live = caller.calls.values.count { $0.role == .caller && !$0.isEnded }
    if live >= 3 { return }
    let others = callee.devices.count { $0 !== caller }
    let script = CallScript.write(
      devices: others, limits: options.limits, mostly: options.mostly, &random)
    place(from: caller, to: callee, script)
  }

  func place(
    from caller: SimDevice, to callee: (user: String, devices: [SimDevice]), _ script: CallScript,
    about other: CallID? = nil
  ) {
    let callees = callee.devices.filter { $0 !== caller }
    let call = CallID(high: random.next(), low: random.next())
    let request = PlaceRequest(
      call: call, ringTimeoutSeconds: script.ringTimeoutSeconds, description: "offer",
      headers: random.chance(0.2) ? [CustomHeader(name: "x", value: "1")] : [],
      pushData: SimOptions.pushData(call))
    let address = CallAddress(
      callee: callee.user.hasBytes(of: caller.who.user) ? "" : callee.user, call: call)
    running[call] = Running(
      script: script, caller: caller, callees: callees, request: request, address: address,
      about: other)
    world.count("call.\(script.kind.rawValue)")
    world.note("\(caller.who)", call: call, "calls \(callee.user): \(script.kind.rawValue)")
    caller.submit(.place(address, request))
    for step in script.steps { schedule(step, call) }
  }

  func schedule(_ step: CallScript.Step, _ call: CallID) {
    later(step.at) { $0.act(step, call) }
  }

  private func act(_ step: CallScript.Step, _ call: CallID) {
    guard let running = running[call] else { return }
    let device: SimDevice? =
      switch step.who {
      case .caller: running.caller
      case .callee(let number):
        running.callees.indices.contains(number) ? running.callees[number] : nil
      case .winner: running.winner
      }
    guard let device, !step.ifRinging || device.rings(call), !device.forgot(call) else { return }
    // The other side waits, so that the cluster has to end the call.
    if case .say(.hangUp) = step.act, isIgnored(call) { return }
    let isPlacer =
      step.who == .caller && running.rungForTransfer.isEmpty
      && running.script.kind != .placedByServer
    let address = isPlacer ? running.address : device.address(call)
    switch step.act {
    case .say(let verb):
      // A call that the app does not show can be neither answered nor declined.
      let needsCall: CallActs = [.answer, .refusal]
      if !needsCall.isDisjoint(with: CallActs(verb)), device.calls[call] == nil { return }
      device.submit(.call(address, verb))
    case .signal: signal(device, address)
    case .callBack: running.caller.map { callBack(device, $0.who.user) }
    case .pull(let count): pull(address, from: device, count)
    case .transfer: transfer(address, from: device)
    case .consult: consult(address.call, from: device)
    case .placeAgain: device.submit(.place(running.address, running.request))
    case .placeOther:
      var other = running.request
      other.setup.description = "another offer"
      device.submit(.place(running.address, other))
    case .register: register(device)
    case .unregister: device.submit(.unregister(nil))
    case .breakLink, .goOffline, .sleep, .restart, .signOff: away(device, step.act, call)
    }
  }

  private func isIgnored(_ call: CallID) -> Bool { allDevices.contains { $0.ignores(call) } }

  private func signal(_ device: SimDevice, _ address: CallAddress) {
    signalCounts[device.who, default: 0] += 1
    let number = signalCounts[device.who] ?? 0
    let text = SignalText.write(device.who, number)
    // Like an app that renegotiates now and then, and whose people type to each other, seldom too early.
    let mayType = device.calls[address.call]?.phase == .answered || number % 16 == 1
    let kind: SignalKind =
      number.isMultiple(of: 8)
      ? .description : number % 4 == 1 && mayType ? .information : .candidate
    device.submit(.call(address, .signal(kind, body: text)))
  }

  func register(_ device: SimDevice) {
    guard device.registers else { return }
    let request = push?.request(device.who)
    device.submit(.register(request ?? RegistrationRequest(deviceName: device.who.device)))
  }

  func away(_ device: SimDevice, _ act: CallScript.Act, _ call: CallID? = nil) {
    guard isActive, device.isOn else { return }
    switch act {
    case .breakLink(let silently): device.breakLink(silently: silently)
    case .goOffline(let span): device.goOffline(for: span)
    case .sleep(let span):
      device.sleep()
      world.schedule(after: span) { device.wake() }
    case .restart(let span, let woken):
      device.kill(silently: random.chance(0.3))
      comeBack(device, after: span, wokenFor: woken ? call : nil)
    case .signOff(let span):
      device.leave()
      comeBack(device, after: span + .milliseconds(300))
    default: break
    }
  }

  func comeBack(_ device: SimDevice, after span: Span, wokenFor call: CallID? = nil) {
    world.schedule(after: span) {
      guard !device.isOn else { return }
      device.wokenFor = call
      device.start()
    }
  }

  // MARK: The end

  /// Ends the activity: all devices come back and hang up.
  func end() {
    isActive = false
    for device in allDevices {
      device.wake()
      device.start()
      device.comeOnline()
    }
    for round in 1...6 {
      later(.seconds(Int64(round * 2))) {
        for device in $0.allDevices {
          let views = device.calls.values.sorted { $0.call.description < $1.call.description }
          for view in views
          where !view.isEnded && view.phase == .answered && !$0.isIgnored(view.call) {
            device.submit(.call(device.address(view.call), .hangUp))
          }
        }
      }
    }
  }
}
