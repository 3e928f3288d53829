internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// The decisions of users about calls to them, and the acts of the app's server.
extension Workload {
  func beginServing() {
    guard let server else { return }
    if options.hasRules {
      var script = RuleScript(people: devices.count, world.fork("rules"))
      for number in devices.indices where number == 0 || script.random.chance(0.7) {
        decideRules(script.rules(of: number, isLate: false), of: number, &script.random)
      }
      decideAnew(script)
    }
    guard options.hasServer else { return }
    var names = world.fork("names")
    for user in SimOptions.nameless where names.chance(0.8) { name(user, server, names) }
    var calls = world.fork("placed by the server")
    placeByServer(server, &calls)
    read(by: server, world.fork("read by the server"))
  }

  /// Groups are called as anybody is.
  func callGroups(_ random: SimRandom) {
    var random = random
    laterIfActive(random.exponential(mean: .seconds(6))) { people in
      if let group = random.pick(SimGroups.names),
        let caller = random.pick(people.allDevices.filter { $0.isOn && !$0.isAsleep })
      {
        let script = CallScript.write(
          devices: 0, limits: people.options.limits, mostly: nil, &random)
        people.place(from: caller, to: (group, []), script)
        people.world.count("call.to a group")
      }
      people.callGroups(random)
    }
  }

  // MARK: Histories

  /// People look at what they have missed.
  func readHistories(_ random: SimRandom) {
    var random = random
    laterIfActive(random.exponential(mean: .seconds(2))) { people in
      if let device = random.pick(people.allDevices.filter { $0.isAttached }) {
        let marks = random.chance(0.4)
        if marks, let newest = people.newestRead[device.who] {
          device.submit(.history(.markRead(upTo: newest)))
        } else {
          device.submit(.history(.list(before: nil, limit: UInt32(random.number(1...8)))))
        }
      }
      people.readHistories(random)
    }
  }

  /// The app's server looks at calls and histories.
  private func read(by server: SimAppServer, _ random: SimRandom) {
    var random = random
    laterIfActive(random.exponential(mean: .seconds(1))) { people in
      let user = random.pick(people.devices)?.user ?? ""
      switch random.below(people.options.keepsHistory ? 4 : 3) {
      case 0: server.ask(.live(before: nil))
      case 1: server.ask(.calls(of: user))
      case 2:
        let addresses = people.running.values.map(\.address).filter { !$0.callee.isEmpty }
        let known = addresses.sorted { $0.call.description < $1.call.description }
        random.pick(known).map { server.ask(.look($0)) }
      default: server.ask(.history(before: nil, of: user))
      }
      people.read(by: server, random)
    }
  }

  // MARK: Rules

  private func decideAnew(_ script: RuleScript) {
    var script = script
    laterIfActive(script.random.exponential(mean: .seconds(4))) { people in
      let number = script.random.below(people.devices.count)
      people.decideRules(script.rules(of: number, isLate: true), of: number, &script.random)
      people.decideAnew(script)
    }
  }

  /// A device of the user sets them, or the app's server does.
  private func decideRules(_ rules: UserRules, of number: Int, _ random: inout SimRandom) {
    let (user, owned) = devices[number]
    if random.chance(0.5), let device = random.pick(owned.filter { $0.isAttached }) {
      world.count("rules.by a device")
      device.submit(.rules(.write(rules)))
    } else {
      world.count("rules.by the server")
      server?.ask(.rules(rules, of: user))
    }
  }

  // MARK: Names

  /// Sets a user's name, and another one now and then.
  private func name(_ user: String, _ server: SimAppServer, _ random: SimRandom, _ number: Int = 1)
  {
    var random = random
    let isFirst = number == 1 && random.chance(0.7)
    laterIfActive(isFirst ? .milliseconds(1) : random.exponential(mean: .seconds(12))) { people in
      let name = random.chance(0.9) ? "\(user) the \(number)." : ""
      server.ask(.name(name, of: user))
      people.name(user, server, random, number + 1)
    }
  }

  // MARK: Calls

  private func placeByServer(_ server: SimAppServer, _ random: inout SimRandom) {
    let mean = options.mostly == .placedByServer ? Span.milliseconds(900) : .seconds(3)
    var random = random
    laterIfActive(random.exponential(mean: mean)) { people in
      people.place(by: server, &random)
      people.placeByServer(server, &random)
    }
  }

  private func place(by server: SimAppServer, _ random: inout SimRandom) {
    guard let first = random.pick(devices), let second = random.pick(devices),
      !first.user.hasBytes(of: second.user)
    else { return }
    let script = CallScript.placedByServer(devices: first.devices.count, &random)
    let call = CallID(high: random.next(), low: random.next())
    let request = PlaceRequest(call: call, ringTimeoutSeconds: script.ringTimeoutSeconds)
    let address = CallAddress(callee: first.user, call: call)
    running[call] = Running(
      script: script, caller: nil, callees: first.devices, request: request, address: address)
    world.count("call.\(script.kind.rawValue)")
    var body = HTTPBodies.PlaceCall(call: call, from: first.user, to: second.user)
    body.ringTimeoutSeconds = script.ringTimeoutSeconds
    body.callerName = SimOptions.callerName(call)
    body.pushData = SimOptions.pushData(call)
    if random.chance(0.25) {
      body.device = random.pick(first.devices).map { DeviceID($0.who.device) }
    }
    server.ask(.place(body))
    for step in script.steps { schedule(step, call) }
    guard random.chance(0.1) else { return }
    later(.milliseconds(Int64(random.number(100...8000)))) { _ in server.ask(.end(address)) }
  }
}
