internal import CallClient
internal import CallCore
internal import CallWire

final class Workload: FaultSource {
  private struct Running {
    var script: CallScript
    var caller: SimDevice
    var callees: [SimDevice]
    var request: PlaceRequest
    var address: CallAddress
    var winner: SimDevice?
    var isAnswered = false
  }

  let world: SimWorld
  private let options: SimOptions
  var random: SimRandom
  /// By user.
  private(set) var devices: [(user: String, devices: [SimDevice])] = []
  private var running: [CallID: Running] = [:]
  private var signalCounts: [Who: Int] = [:]
  private(set) var isActive = true
  /// nil: nobody has push here.
  var push: SimPushPeople?

  var allDevices: [SimDevice] { devices.flatMap(\.devices) }

  init(_ world: SimWorld, _ options: SimOptions) {
    self.world = world
    self.options = options
    random = world.fork("workload")
  }

  // MARK: People

  /// Gives people their devices. - Parameter make: makes one.
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
        device.registers = !isGuest
        prepare(device)
      }
      devices.append((user, owned))
    }
  }

  private func prepare(_ device: SimDevice) {
    device.onEvent = { [weak self] in self?.heard($0, $1) }
    world.schedule(after: random.span(.milliseconds(0), .seconds(2)), "device starts") {
      device.start()
    }
    if options.intensity != .calm { trouble(device) }
  }

  /// Mishaps of a device that have nothing to do with a call.
  private func trouble(_ device: SimDevice) {
    every(.seconds(options.intensity == .brutal ? 20 : 60)) { people in
      switch people.random.below(5) {
      case 0: device.breakLink(silently: people.random.chance(0.5))
      case 1: people.away(device, .goOffline(people.random.span(.milliseconds(200), .seconds(10))))
      case 2: people.away(device, .sleep(people.random.span(.milliseconds(200), .seconds(20))))
      case 3:
        people.away(
          device, .restart(people.random.span(.milliseconds(200), .seconds(8)), woken: false))
      default: people.away(device, .signOff(people.random.span(.milliseconds(500), .seconds(8))))
      }
    }
  }

  // MARK: Calls

  func begin() {
    every(.milliseconds(options.intensity == .calm ? 900 : 600)) { $0.place() }
  }

  private func place() {
    guard let callee = random.pick(devices),
      let caller = random.pick(devices.filter { !$0.devices.isEmpty })?.devices.randomElement(
        using: &random), caller.isOn, !caller.isAsleep
    else { return }
    let live = caller.calls.values.count { $0.role == .caller && !$0.isEnded }
    if live >= 3 { return }
    let callees = callee.devices.filter { $0 !== caller }
    let script = CallScript.write(devices: callees.count, limits: options.limits, &random)
    let call = CallID(high: random.next(), low: random.next())
    let request = PlaceRequest(
      call: call, ringTimeoutSeconds: script.ringTimeoutSeconds, description: "offer",
      headers: random.chance(0.2) ? [CustomHeader(name: "x", value: "1")] : [])
    let address = CallAddress(
      callee: callee.user.hasBytes(of: caller.who.user) ? "" : callee.user, call: call)
    running[call] = Running(
      script: script, caller: caller, callees: callees, request: request, address: address)
    world.count("call.\(script.kind.rawValue)")
    world.note("\(caller.who)", call: call, "calls \(callee.user): \(script.kind.rawValue)")
    caller.submit(.place(address, request))
    for step in script.steps { schedule(step, call) }
  }

  private func schedule(_ step: CallScript.Step, _ call: CallID) {
    world.schedule(after: step.at, "act") { [weak self] in self?.act(step, call) }
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
    guard let device, !step.ifRinging || device.rings(call) else { return }
    // Nobody can answer or decline a call that the app does not know.
    switch step.act {
    case .answer, .declineHere, .declineEverywhere, .busy:
      guard device.calls[call] != nil else { return }
    default: break
    }
    let address = step.who == .caller ? running.address : CallAddress(call: call)
    switch step.act {
    case .answer: device.submit(.call(address, .answer(description: "answer")))
    case .declineHere: device.submit(.call(address, .decline(.here)))
    case .declineEverywhere: device.submit(.call(address, .decline(.everywhere)))
    case .busy: device.submit(.call(address, .busy))
    case .cancel: device.submit(.call(address, .cancel))
    case .hangUp: hangUp(device, address)
    case .signal: signal(device, address)
    case .placeAgain: device.submit(.place(running.address, running.request))
    case .placeOther:
      var other = running.request
      other.description = "another offer"
      device.submit(.place(running.address, other))
    case .query: device.submit(.call(address, .query))
    case .register: register(device)
    case .unregister: device.submit(.unregister(nil))
    case .breakLink, .goOffline, .sleep, .restart, .signOff: away(device, step.act, call)
    }
  }

  private func hangUp(_ device: SimDevice, _ address: CallAddress) {
    device.submit(.call(address, .hangUp))
  }

  private func signal(_ device: SimDevice, _ address: CallAddress) {
    signalCounts[device.who, default: 0] += 1
    let text = SignalText.write(device.who, signalCounts[device.who] ?? 0)
    let number = signalCounts[device.who] ?? 0
    // Like an app that renegotiates now and then.
    let kind: SignalKind = number.isMultiple(of: 8) ? .description : .candidate
    device.submit(.call(address, .signal(kind, body: text)))
  }

  private func register(_ device: SimDevice) {
    guard device.registers else { return }
    let request = push?.request(device.who)
    device.submit(.register(request ?? RegistrationRequest(deviceName: device.who.device)))
  }

  private func away(_ device: SimDevice, _ act: CallScript.Act, _ call: CallID? = nil) {
    guard isActive, device.isOn else { return }
    switch act {
    case .breakLink(let silently): device.breakLink(silently: silently)
    case .goOffline(let span): device.goOffline(for: span)
    case .sleep(let span):
      device.sleep()
      world.schedule(after: span, "wakes") { device.wake() }
    case .restart(let span, let woken):
      device.kill(silently: random.chance(0.3))
      comeBack(device, after: span, wokenFor: woken ? call : nil)
    case .signOff(let span):
      device.leave()
      let pause = Span(microseconds: span.microseconds + 300_000)
      comeBack(device, after: pause, wokenFor: nil)
    default: break
    }
  }

  private func comeBack(_ device: SimDevice, after span: Span, wokenFor call: CallID?) {
    world.schedule(after: span, "comes back") {
      guard !device.isOn else { return }
      device.wokenFor = call
      device.start()
    }
  }

  // MARK: The apps

  /// The user signs out of the account on this phone, and in again later.
  func signOut(_ device: SimDevice) {
    guard isActive, device.isOn else { return }
    world.count("token.signed out")
    device.submit(.unregister(nil))
    device.after(.milliseconds(400)) { [weak self] in
      guard let self else { return }
      away(device, .signOff(random.span(.seconds(1), .seconds(8))))
    }
  }

  private func heard(_ device: SimDevice, _ event: ClientEvent) {
    push?.heard(device, event)
    switch event {
    case .attached(_, let again):
      if random.chance(again ? 0.2 : 0.8) { register(device) }
    case .refused:
      // The user signs in again, after a while.
      let wait = random.span(.milliseconds(500), .seconds(3))
      world.schedule(after: wait, "signs in again") { [weak self] in
        device.kill(silently: false)
        self?.comeBack(device, after: .milliseconds(50), wokenFor: nil)
      }
    case .call(let call, let event): heard(device, call, event)
    case .detached, .notTrusted, .replied, .gaveUp, .notice: break
    }
  }

  private func heard(_ device: SimDevice, _ call: CallID, _ event: CallEvent) {
    guard let script = running[call]?.script else { return }
    switch event {
    case .invited:
      if script.alerts {
        device.after(random.span(.milliseconds(2), .milliseconds(300))) {
          if device.rings(call) { device.submit(.call(CallAddress(call: call), .alerting)) }
        }
      }
    case .won:
      if running[call]?.winner == nil { running[call]?.winner = device }
      connect(device, call, script)
    case .answered: connect(device, call, script)
    case .ringing, .stopped, .signal: break
    }
  }

  private func connect(_ device: SimDevice, _ call: CallID, _ script: CallScript) {
    guard isActive else { return device.submit(.call(device.address(call), .hangUp)) }
    guard script.connects else { return }
    device.after(random.span(.milliseconds(20), .milliseconds(800))) {
      device.submit(.call(device.address(call), .connected))
    }
  }

  func answered(_ call: CallID) {
    guard let script = running[call]?.script, running[call]?.isAnswered == false else { return }
    running[call]?.isAnswered = true
    for step in script.stepsFromAnswer { schedule(step, call) }
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
      world.schedule(after: .seconds(Int64(round * 2)), "hang up") { [weak self] in
        for device in self?.allDevices ?? [] {
          let views = device.calls.values.sorted { $0.call.description < $1.call.description }
          for view in views where !view.isEnded && view.phase == .answered {
            device.submit(.call(device.address(view.call), .hangUp))
          }
        }
      }
    }
  }
}
