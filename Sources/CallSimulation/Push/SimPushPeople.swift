internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// The users' actions that affect push: they put phones away, reinstall apps, sign out, and hand phones
/// on.
final class SimPushPeople: FaultSource {
  let world: SimWorld
  private let provider: SimProvider
  var random: SimRandom
  private var profiles: [Who: SimPushProfile] = [:]
  /// The devices whose app is suspended when idle.
  private var sleepers: Set<Who> = []
  private var devices: [SimDevice] = []
  private var lastSerial: UInt64 = 0
  private(set) var isActive = true
  /// Signs a device out. Set by the workload.
  var signOut: (SimDevice) -> Void = { _ in }

  init(_ world: SimWorld, _ provider: SimProvider) {
    self.world = world
    self.provider = provider
    random = world.fork("push people")
  }

  func profile(_ who: Who) -> SimPushProfile? { profiles[who] }

  func request(_ who: Who) -> RegistrationRequest? {
    profiles[who].map { $0.request(name: who.device) }
  }

  private func fresh(_ kind: SimPushProfile.Kind) -> SimPushProfile {
    lastSerial += 1
    return SimPushProfile(kind: kind, serial: lastSerial)
  }

  private func kind() -> SimPushProfile.Kind {
    switch random.unit() {
    case ..<0.15: .none
    case ..<0.45: .callmesh
    case ..<0.50: .stranger
    default: random.pick(SimPushProfile.Kind.allCases) ?? .callmesh
    }
  }

  func begin(_ all: [SimDevice]) {
    devices = all
    for device in all {
      give(device.who, fresh(kind()))
      if random.chance(0.55) { sleepers.insert(device.who) }
    }
    every(.milliseconds(1500)) { $0.doSomething() }
  }

  private func give(_ who: Who, _ profile: SimPushProfile) {
    var profile = profile
    // Sinch's dialect takes only user names in ASCII.
    if profile.kind == .sinch, !who.user.utf8.allSatisfy({ $0 < 0x80 }) { profile.kind = .apple }
    profiles[who] = profile
    for token in profile.tokens { provider.give(token, to: who) }
  }

  func end() { isActive = false }

  // MARK: Now and then

  private func doSomething() {
    let reachable = devices.filter { profiles[$0.who]?.kind != SimPushProfile.Kind.none }
    guard let device = random.pick(reachable), let profile = profiles[device.who] else { return }
    switch random.unit() {
    case ..<0.20: renew(device, profile)
    case ..<0.35: uninstall(device, profile)
    case ..<0.45: install(device, profile)
    case ..<0.55: bare(device, profile)
    case ..<0.85: move(device, profile)
    default: if device.isOn { signOut(device) }
    }
  }

  /// The system gives the app new tokens; the former ones become invalid soon.
  private func renew(_ device: SimDevice, _ former: SimPushProfile) {
    world.count("token.renewed")
    give(device.who, fresh(former.kind))
    register(device)
    for token in former.tokens {
      later(random.span(.zero, .seconds(2))) { $0.provider.forget(token) }
    }
  }

  /// The app is uninstalled: its provider reports so from now on, and the cluster is not notified.
  private func uninstall(_ device: SimDevice, _ profile: SimPushProfile) {
    world.count("token.gone")
    for token in profile.tokens { provider.forget(token) }
    if random.chance(0.4) { device.kill(silently: random.chance(0.5)) }
    // Reinstalled with the same tokens, which the provider still reports as gone at first.
    laterIfActive(random.span(.milliseconds(100), .seconds(5))) { people in
      guard people.profiles[device.who] == profile else { return }
      people.world.count("token.good again")
      for token in profile.tokens { people.provider.revive(token) }
      people.open(device)
      people.register(device)
    }
  }

  /// Registers the same tokens again, which renews them.
  private func install(_ device: SimDevice, _ profile: SimPushProfile) {
    for token in profile.tokens { provider.revive(token) }
    register(device)
  }

  /// The user turned notifications off, and on again.
  private func bare(_ device: SimDevice, _ profile: SimPushProfile) {
    world.count("token.removed")
    profiles[device.who]?.isBare = true
    register(device)
    later(random.span(.seconds(1), .seconds(6))) {
      guard $0.profiles[device.who]?.isBare ?? false else { return }
      $0.profiles[device.who]?.isBare = false
      $0.register(device)
    }
  }

  /// The phone changes hands: another device, perhaps of the same user, gets its tokens. The former
  /// user's app may even register them again.
  private func move(_ device: SimDevice, _ profile: SimPushProfile) {
    guard let other = random.pick(devices.filter { $0 !== device }), !profile.isBare else { return }
    world.count("token.moved")
    give(other.who, profile)
    if random.chance(0.25) {
      // Both believe that it is theirs.
      register(device)
    } else {
      give(device.who, fresh(profile.kind))
      for token in profile.tokens { provider.give(token, to: other.who) }
      if random.chance(0.5) { register(device) }
    }
    open(other)
    register(other)
  }

  private func register(_ device: SimDevice) {
    guard device.registers, let request = request(device.who) else { return }
    device.submit(.register(request))
  }

  private func open(_ device: SimDevice) {
    device.wake()
    device.start()
  }

  // MARK: Sleep

  /// An app that was notified may go to sleep soon.
  func received(_ device: SimDevice, _ event: ClientEvent) {
    guard isActive, sleepers.contains(device.who), profiles[device.who]?.wakes ?? false else {
      return
    }
    switch event {
    case .replied(_, .register, .registered), .call(_, .stopped): break
    default: return
    }
    laterIfActive(random.span(.milliseconds(200), .seconds(3))) { $0.putAway(device) }
  }

  private func putAway(_ device: SimDevice) {
    guard device.isOn, !device.isAsleep, device.isAttached,
      device.calls.values.allSatisfy(\.isEnded)
    else { return }
    world.count("phone.sleeps")
    if random.chance(0.7) { device.leave() } else { device.kill(silently: random.chance(0.5)) }
    // At the end all devices are on.
    later(.milliseconds(400)) { if !$0.isActive { device.start() } }
    // The user opens the app now and then.
    laterIfActive(random.exponential(mean: .seconds(20))) { _ in device.start() }
  }
}
