internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallPush
internal import CallWire

/// Phones that receive pushes: they wake the app, which attaches for the call, or decline without a
/// session; some wake too late or never.
final class SimPhones: SimActor {
  /// A request that a phone makes without a session, with the capability of a push.
  private struct Errand {
    let phone: SimDevice
    let address: CallAddress
    let verb: CallVerb
    let capability: String
    let since: Timestamp

    var call: CallID { address.call }
    var command: ClientCommand { .call(address, verb) }
    var action: PushActions.Action {
      switch verb {
      case .decline(let scope): .decline(scope)
      case .busy: .busy
      default: .query
      }
    }
  }

  let world: SimWorld
  private let edges: [SimEdge]
  private let device: (Who) -> SimDevice?
  private let profile: (Who) -> SimPushProfile?
  private var random: SimRandom
  var onDelivery: (Who, SimProvider.Push) -> Void = { _, _ in }
  var onEvent: (PushEvent) -> Void = { _ in }
  /// No more faults: every pushed phone wakes.
  var isCalm = false

  init(
    _ world: SimWorld, _ edges: [SimEdge], device: @escaping (Who) -> SimDevice?,
    profile: @escaping (Who) -> SimPushProfile?
  ) {
    self.world = world
    self.edges = edges
    self.device = device
    self.profile = profile
    random = world.fork("phones")
  }

  // MARK: A push arrives

  func received(_ holder: Who, _ push: SimProvider.Push) {
    guard let phone = device(holder), let profile = profile(holder) else { return }
    onDelivery(holder, push)
    let news: PushNews
    do throws(PushReadError) {
      // The job's dialect: a phone that changed hands may have another app by now.
      news = try PushReader(push.job.dialect, sdkMajorVersion: profile.sdkMajorVersion)
        .read(push.message.payload)
    } catch {
      return world.stop("a phone cannot read its push: \(error)", call: push.job.call)
    }
    world.note("\(holder)", call: news.call, "gets a push: \(push.job.purpose.name)")
    guard news.call == push.job.call, news.purpose == push.job.purpose else {
      return world.stop("a push says something else than was decided", call: push.job.call)
    }
    // The push was decided before the phone changed hands: the app sees that it is for another
    // user.
    guard Who(push.job) == holder else {
      return world.count("phone.push to the former user")
    }
    guard case .invite(let invite) = news else { return world.count("phone.\(news.purpose.name)") }
    guard let capability = invite.capability, !capability.isEmpty else {
      return world.stop("a push that rings has no capability", call: push.job.call)
    }
    // A transfer rings with nothing of the placing.
    guard push.job.round > 0 || invite.pushData == SimOptions.pushData(invite.call) else {
      return world.stop("a push has other data than the caller gave", call: push.job.call)
    }
    rings(phone, invite, capability)
  }

  private func rings(_ phone: SimDevice, _ invite: PushInvite, _ capability: String) {
    if case .expired = invite.freshness(at: world.now, serverOffset: .seconds(0)) {
      world.count("phone.late ring")
    }
    let call = CallAddress(callee: invite.callee ?? phone.who.user, call: invite.call)
    let soon = random.span(.milliseconds(30), .milliseconds(900))
    if isCalm { return later(soon) { $0.wake(phone, call) } }
    switch random.unit() {
    case ..<0.10: world.count("phone.never wakes")
    case ..<0.19:
      let everywhere = random.chance(0.7)
      later(random.span(.milliseconds(200), .seconds(3))) {
        $0.ask(phone, call, .decline(everywhere ? .everywhere : .here), capability)
      }
    case ..<0.24:
      later(random.span(.milliseconds(200), .seconds(3))) {
        $0.ask(phone, call, .busy, capability)
      }
    case ..<0.29:
      ask(phone, call, .query, capability)
      later(random.span(.milliseconds(300), .seconds(2))) { $0.wake(phone, call) }
    case ..<0.38:
      world.count("phone.wakes late")
      later(random.span(.seconds(2), .seconds(12))) { $0.wake(phone, call) }
    default: later(soon) { $0.wake(phone, call) }
    }
  }

  private func wake(_ phone: SimDevice, _ address: CallAddress) {
    let call = address.call
    world.count(phone.isOn ? "phone.woken while it is on" : "phone.woken")
    // A suspended app first reads its socket.
    phone.wake()
    // The app may have the call already.
    let isNews = phone.calls[call].map { $0.phase == .unknown } ?? true
    phone.woken(for: address)
    // Reported afterwards: a new process has forgotten earlier pushes.
    if isNews { onEvent(.woken(phone.who, call)) }
  }

  // MARK: Without a session

  private func ask(
    _ phone: SimDevice, _ address: CallAddress, _ verb: CallVerb, _ capability: String
  ) {
    let call = address.call
    let errand = Errand(
      phone: phone, address: address, verb: verb, capability: capability, since: world.now)
    world.count("phone.\(verb.name) by HTTP")
    world.note("\(phone.who)", call: call, "\(verb.name) by HTTP")
    onEvent(.asked(phone.who, call, errand.command))
    attempt(errand, left: 5)
  }

  /// Tries one edge after the other, as the client does.
  private func attempt(_ errand: Errand, left: Int) {
    guard left > 0 else { return world.count("phone.HTTP given up") }
    let again: () -> Void = { [weak self] in
      guard let self else { return }
      later(random.span(.milliseconds(100), .milliseconds(800))) {
        $0.attempt(errand, left: left - 1)
      }
    }
    guard let edge = random.pick(edges.filter(\.listens)) else { return again() }
    let request = PushActions.request(
      errand.action, callee: errand.address.callee, call: errand.call,
      capability: errand.capability)
    edge.perform(request, by: "\(errand.phone.who)'s push", seed: random.next()) {
      [weak self] response in
      guard let self else { return }
      if let response, response.status == 200, let state = HTTPBodies.readCallState(response.body) {
        world.count("phone.HTTP answered")
        answered(errand, .call(state))
      } else if let response, response.status != 200,
        let error = HTTPBodies.readError(response.body),
        ![.tryAgain, .draining, .overloaded].contains(error.code)
      {
        answered(errand, .error(error))
      } else {
        again()
      }
    }
  }

  private func answered(_ errand: Errand, _ reply: ServerReply) {
    let who = errand.phone.who
    world.note("\(who)", call: errand.call, "by HTTP: \(SimText.text(reply))")
    onEvent(.answered(who, errand.command, reply, since: errand.since))
  }
}
