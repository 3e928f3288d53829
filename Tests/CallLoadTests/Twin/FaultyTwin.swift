import CallClient
import CallCore
import CallWire

/// A small cluster in memory that speaks the device protocol, to verify that a judge of clusters
/// detects each fault. Without a fault it keeps every rule. It shares no code with the real
/// cluster's rules, so that it does not share their mistakes.
final class FaultyTwin: DeviceNetwork {
  let loop: VirtualDeviceLoop
  let fault: Fault?
  var sessions: [Party: FaultyTwinLink] = [:]
  var calls: [CallID: Call] = [:]
  var random: SplitMix64
  var faultsPlayed = 0
  private var callCount = 0
  /// The registered devices, as the twin remembers them.
  private(set) var registered: Set<Party> = []
  var pushable: [Party: RegistrationRequest] = [:]
  var takes: (Party) -> PushCapabilities = { _ in [] }
  /// Hands a push to its provider. The number tells pushes apart.
  var onPush: ((PushJob, _ number: Int) -> Void)?
  var pushCount = 0
  /// By user: to whom its rules send all calls.
  private var forwards: [String: String] = [:]
  var groups: [String: CallGroup] = [:]
  /// Calls that were answered, and not found to be over since.
  var answered: [CallID: Call] = [:]
  /// Whether a user takes no second call.
  var isStrict: (String) -> Bool = { _ in false }
  /// By user: what devices were shown last of the user's calls.
  var shown: [String: OngoingCalls] = [:]
  /// By group and member: when the last call of the group ended that the member had.
  var groupTalks: [String: [String: Timestamp]] = [:]
  /// Shards without an owner, as after a coordinator's death: their commands are lost, and what is
  /// due is done afterwards. Shards are those of the product's hash, of `shardCount`.
  var silentShards: Set<Int> = []
  var shardCount = 1
  /// Its edges refuse connections.
  var isDown = false

  init(loop: VirtualDeviceLoop, fault: Fault? = nil, seed: UInt64 = 1) {
    self.loop = loop
    self.fault = fault
    random = SplitMix64(seed: seed)
  }

  /// Makes a token, which is simply the user's name.
  static func token(user: String, device: String) -> String { user }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    let link = FaultyTwinLink(twin: self, delegate: delegate)
    loop.schedule(at: loop.now + latency()) { [self] in
      if isDown { link.breakOff() } else { link.open() }
    }
    return link
  }

  func latency() -> Span { Span(microseconds: Int64.random(in: 50...400, using: &random)) }

  /// Whether to apply the fault to this call now. If so, it counts as applied.
  func plays(_ fault: Fault, _ call: Call) -> Bool {
    guard self.fault == fault, call.number % 3 == 0, !call.isFaulty else { return false }
    call.isFaulty = true
    faultsPlayed += 1
    return true
  }

  // MARK: Commands

  func received(_ frame: ClientFrame, _ link: FaultyTwinLink) {
    if case .attach(let attach) = frame.command { return self.attach(attach, frame.id, link) }
    guard let party = link.party else {
      return link.reply(frame.id, .error(CallError(.notAttached)))
    }
    func inCall(_ address: CallAddress, _ body: (Call, Party) -> ServerReply?) {
      self.inCall(address, frame.id, party, link) { call, party in
        guard case .call(_, let verb) = frame.command,
          let reply = ofTransfer(call, party, verb)
        else { return body(call, party) }
        return reply
      }
    }
    if case .ack = frame.command { return }
    defer { showOngoing() }
    switch frame.command {
    case .attach, .ack: break
    case .detach: lost(link)
    case .ping, .renew, .unregister: link.reply(frame.id, .done)
    case .calls: link.reply(frame.id, .calls(LiveCalls()))
    case .history: link.reply(frame.id, .history(history(of: party.user)))
    case .rules(.write(let rules)):
      forwards[party.user] = rules.always?.users.first
      link.reply(frame.id, .rules(rules))
    case .rules(.read): link.reply(frame.id, .rules(UserRules()))
    case .register(let request):
      register(party)
      if request.voipToken != nil { pushable[party] = request }
      let expiry = loop.now + .seconds(86_400)
      link.reply(frame.id, .registered(RegisteredInfo(device: party.device, expiresAt: expiry)))
    case .place(let address, let request): place(address, request, frame.id, party, link)
    case .call(let address, .alerting): inCall(address, alerting)
    case .call(let address, .answer): inCall(address, answer)
    case .call(let address, .decline(.everywhere)): inCall(address, declineEverywhere)
    case .call(let address, .decline(.here)): inCall(address) { leave($0, $1, .declined) }
    case .call(let address, .busy): inCall(address) { leave($0, $1, .busy) }
    case .call(let address, .cancel): inCall(address, cancel)
    case .call(let address, .connected): inCall(address) { _, _ in .done }
    case .call(let address, .hangUp): inCall(address, hangUp)
    case .call(let address, .pull(let request)): inCall(address) { pull($0, $1, request) }
    case .call(let address, .transfer(let request)):
      inCall(address) { transfer($0, $1, request) }
    case .call(_, .cancelTransfer):
      link.reply(frame.id, .error(CallError(.unknownCommand)))
    case .call(let address, .signal(let kind, let body)):
      inCall(address) { signal($0, $1, kind, body) }
    case .call(let address, .resume): inCall(address, resume)
    case .call(let address, .query): inCall(address) { .call(state($0, $1)) }
    }
  }

  private func register(_ party: Party) {
    registered.insert(party)
    guard fault == .losesRegistrations, registered.count % 10 == 0 else { return }
    faultsPlayed += 1
    registered.remove(party)
  }

  func isSilent(_ callee: String) -> Bool {
    guard !silentShards.isEmpty else { return false }
    let key = UserKey(app: "load", user: callee)
    return silentShards.contains(ShardHash.shard(of: key, count: shardCount))
  }

  /// Gives shards an owner again, which does what is due.
  func speakAgain() {
    silentShards = []
    for call in calls.values.sorted(by: { $0.number < $1.number }) {
      if case .ringing = call.stage, call.deadline <= loop.now { ringOut(call) }
    }
  }

  private func inCall(
    _ address: CallAddress, _ id: UInt64, _ party: Party, _ link: FaultyTwinLink,
    _ body: (Call, Party) -> ServerReply?
  ) {
    guard !isSilent(address.callee.isEmpty ? party.user : address.callee) else { return }
    guard let call = calls[address.call], !call.isForgotten else {
      return link.reply(id, .error(CallError(.unknownCall)))
    }
    if plays(.losesCommands, call) {
      call.isFaulty = false
      return
    }
    if plays(.refusesForNoReason, call) {
      return link.reply(id, .error(CallError(.invalidField)))
    }
    if let reply = body(call, party) { link.reply(id, reply) }
  }

  private func attach(_ attach: AttachRequest, _ id: UInt64, _ link: FaultyTwinLink) {
    let party = Party(user: attach.token, device: DeviceID(attach.device))
    link.party = party
    link.wantsOngoing = attach.wantsOngoing
    sessions[party] = link
    var info = AttachedInfo(
      session: "twin", user: party.user, device: party.device, pingSeconds: 25,
      serverTime: loop.now)
    if attach.wantsOngoing { info.ongoing = shown[party.user] ?? OngoingCalls(version: 1) }
    link.reply(id, .attached(info))
    for call in calls.values { tellPresentState(call, party, wokenFor: attach.forCall) }
  }

  /// Notifies a device that its edge shuts down.
  func sendAway(_ party: Party) {
    sessions[party]?.deliver(.notice(Notice(kind: .goAway, message: "moves")))
  }

  func lost(_ link: FaultyTwinLink) {
    guard let party = link.party, sessions[party] === link else { return }
    sessions[party] = nil
    for call in calls.values where call.caller == party { call.callerIsAway = true }
  }

  private func place(
    _ address: CallAddress, _ request: PlaceRequest, _ id: UInt64, _ party: Party,
    _ link: FaultyTwinLink
  ) {
    guard !isSilent(address.callee) else { return }
    if let call = calls[address.call] { return link.reply(id, .call(state(call, party))) }
    callCount += 1
    let call = Call(
      id: address.call, number: callCount, caller: party, callee: address.callee,
      placedAt: loop.now, deadline: loop.now + .seconds(Int64(request.setup.ringTimeoutSeconds)))
    call.target = forwards[call.callee] ?? call.callee
    if let refusal = askHook(about: call, request) { return link.reply(id, .error(refusal)) }
    calls[call.id] = call
    noteSecond(call)
    link.reply(id, .call(state(call, party)))
    if plays(.forgetsAccepted, call) {
      call.isForgotten = true
      return
    }
    if let group = groups[call.callee] {
      ringGroup(call, group)
      return loop.schedule(at: call.deadline) { [weak self] in self?.ringOut(call) }
    }
    if isBusy(call) { return end(call, .busy, by: nil) }
    let callees = sessions.keys.filter { $0.user == call.target }
    if !callees.isEmpty, plays(.findsNobody, call) { return end(call, .unreachable, by: nil) }
    for party in callees.sorted(by: { $0.device.text < $1.device.text }) {
      if !call.legs.isEmpty, plays(.leavesADeviceOut, call) { continue }
      call.legs.append(Leg(party: party))
      invite(call, call.legs.count - 1)
    }
    pushSleepers(call)
    cross(call)
    if call.legs.isEmpty { end(call, .unreachable, by: nil) }
    loop.schedule(at: call.deadline) { [weak self] in self?.ringOut(call) }
  }

  private func ringOut(_ call: Call) {
    guard case .ringing = call.stage, !isSilent(call.callee) else { return }
    if plays(.forgetsTheDeadline, call) { return }
    if plays(.endsLate, call) {
      return loop.schedule(at: call.deadline + .seconds(2)) { [weak self] in self?.ringOut(call) }
    }
    end(call, .unanswered, by: nil)
  }
}
