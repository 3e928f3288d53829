internal import CCallProto
internal import CallCore

/// Messages of device.proto that nodes say to each other, too.
extension Packer {
  func header(_ value: CustomHeader) -> UnsafeMutablePointer<Callmesh__V1__Header> {
    let message = arena.make(callmesh__v1__header__init)
    set(&message.pointee.name, value.name)
    set(&message.pointee.value, value.value)
    return message
  }

  func party(_ value: Party) -> UnsafeMutablePointer<Callmesh__V1__Party> {
    let message = arena.make(callmesh__v1__party__init)
    set(&message.pointee.user, value.user)
    set(&message.pointee.device, value.device.text)
    set(&message.pointee.device_name, value.deviceName)
    return message
  }

  func ref(callee: String, _ call: CallID) -> UnsafeMutablePointer<Callmesh__V1__CallRef> {
    let message = arena.make(callmesh__v1__call_ref__init)
    set(&message.pointee.callee, callee)
    message.pointee.id = id(call)
    return message
  }

  func pushToken(_ value: PushToken) -> UnsafeMutablePointer<Callmesh__V1__PushToken> {
    let message = arena.make(callmesh__v1__push_token__init)
    message.pointee.provider = .init(rawValue: .init(value.provider.rawValue))
    set(&message.pointee.environment, value.environment)
    set(&message.pointee.topic, value.topic)
    set(&message.pointee.token, value.token)
    set(&message.pointee.fingerprint, value.fingerprint)
    return message
  }

  func register(_ value: RegistrationRequest) -> UnsafeMutablePointer<Callmesh__V1__Register> {
    let message = arena.make(callmesh__v1__register__init)
    set(&message.pointee.device_name, value.deviceName)
    message.pointee.voip_token = value.voipToken.map(pushToken)
    message.pointee.alert_token = value.alertToken.map(pushToken)
    set(&message.pointee.dialect, value.dialect)
    set(&message.pointee.sdk_name, value.sdkName)
    set(&message.pointee.sdk_version, value.sdkVersion)
    if let capabilities = value.capabilities {
      message.pointee.capabilities_given = 1
      let names = capabilities.names
      message.pointee.n_capabilities = names.count
      message.pointee.capabilities = array(names, string)
    }
    return message
  }

  func callState(_ value: CallState) -> UnsafeMutablePointer<Callmesh__V1__CallState> {
    let message = arena.make(callmesh__v1__call_state__init)
    message.pointee.call = ref(callee: value.callee, value.call)
    message.pointee.phase = .init(rawValue: .init(value.phase.rawValue))
    message.pointee.version = value.version
    message.pointee.reason = .init(rawValue: .init(value.reason?.rawValue ?? 0))
    message.pointee.by = value.by.map(party)
    message.pointee.at_ms = value.at.milliseconds
    message.pointee.deadline_ms = value.deadline?.milliseconds ?? 0
    message.pointee.missed = value.missed ? 1 : 0
    return message
  }

  func error(_ value: CallError) -> UnsafeMutablePointer<Callmesh__V1__Error> {
    let message = arena.make(callmesh__v1__error__init)
    message.pointee.code = UInt32(value.code.rawValue)
    set(&message.pointee.name, value.code.name)
    set(&message.pointee.message, value.message)
    message.pointee.retry_after_ms = value.retryAfterMilliseconds
    return message
  }

  func notice(_ value: Notice) -> UnsafeMutablePointer<Callmesh__V1__Notice> {
    let message = arena.make(callmesh__v1__notice__init)
    message.pointee.kind = .init(rawValue: .init(value.kind.rawValue))
    set(&message.pointee.message, value.message)
    message.pointee.retry_after_ms = value.retryAfterMilliseconds
    return message
  }

  func signal(_ value: Signal) -> UnsafeMutablePointer<Callmesh__V1__SignalItem> {
    let message = arena.make(callmesh__v1__signal_item__init)
    message.pointee.index = value.index
    message.pointee.kind = .init(rawValue: .init(value.kind.rawValue))
    set(&message.pointee.body, value.body)
    return message
  }

  func answerResult(
    won: Bool, _ state: CallState
  ) -> UnsafeMutablePointer<Callmesh__V1__AnswerResult> {
    let message = arena.make(callmesh__v1__answer_result__init)
    message.pointee.won = won ? 1 : 0
    message.pointee.call = callState(state)
    return message
  }

  func callList(_ live: LiveCalls) -> UnsafeMutablePointer<Callmesh__V1__CallList> {
    let message = arena.make(callmesh__v1__call_list__init)
    message.pointee.n_placed = live.placed.count
    message.pointee.placed = array(live.placed, callState)
    message.pointee.n_received = live.received.count
    message.pointee.received = array(live.received, callState)
    return message
  }

  func registered(
    device: String, expiresAt: Timestamp, removed: [DeviceID], capabilities: PushCapabilities = []
  ) -> UnsafeMutablePointer<Callmesh__V1__Registered> {
    let message = arena.make(callmesh__v1__registered__init)
    set(&message.pointee.device, device)
    message.pointee.expires_at_ms = expiresAt.milliseconds
    message.pointee.n_removed_devices = removed.count
    message.pointee.removed_devices = array(removed) { string($0.text) }
    let names = capabilities.names
    message.pointee.n_capabilities = names.count
    message.pointee.capabilities = array(names, string)
    return message
  }

  func delivery(_ value: Delivery) -> UnsafeMutablePointer<Callmesh__V1__Delivery> {
    let message = arena.make(callmesh__v1__delivery__init)
    message.pointee.call = ref(callee: value.callee, value.call)
    message.pointee.version = value.version
    message.pointee.at_ms = value.at.milliseconds
    message.pointee.after = value.after
    switch value.event {
    case .invite(let event):
      message.pointee.event_case = CALLMESH__V1__DELIVERY__EVENT_INVITE
      message.pointee.invite = invite(event)
    case .ringing(let by):
      let event = arena.make(callmesh__v1__ringing__init)
      event.pointee.by = party(by)
      message.pointee.event_case = CALLMESH__V1__DELIVERY__EVENT_RINGING
      message.pointee.ringing = event
    case .answered(let event):
      message.pointee.event_case = CALLMESH__V1__DELIVERY__EVENT_ANSWERED
      message.pointee.answered = answered(event)
    case .stop(let event):
      message.pointee.event_case = CALLMESH__V1__DELIVERY__EVENT_STOP
      message.pointee.stop = stop(event)
    case .signal(let event):
      message.pointee.event_case = CALLMESH__V1__DELIVERY__EVENT_SIGNAL
      message.pointee.signal = signal(event)
    }
    return message
  }

  private func invite(_ value: Invite) -> UnsafeMutablePointer<Callmesh__V1__Invite> {
    let message = arena.make(callmesh__v1__invite__init)
    message.pointee.caller = party(value.caller)
    message.pointee.deadline_ms = value.deadline.milliseconds
    message.pointee.video = value.video ? 1 : 0
    set(&message.pointee.description, value.description)
    message.pointee.n_headers = value.headers.count
    message.pointee.headers = array(value.headers, header)
    message.pointee.n_signals = value.signals.count
    message.pointee.signals = array(value.signals, signal)
    return message
  }

  private func answered(_ value: Answered) -> UnsafeMutablePointer<Callmesh__V1__Answered> {
    let message = arena.make(callmesh__v1__answered__init)
    message.pointee.by = party(value.by)
    set(&message.pointee.description, value.description)
    message.pointee.n_signals = value.signals.count
    message.pointee.signals = array(value.signals, signal)
    return message
  }

  private func stop(_ value: Stop) -> UnsafeMutablePointer<Callmesh__V1__Stop> {
    let message = arena.make(callmesh__v1__stop__init)
    message.pointee.reason = .init(rawValue: .init(value.reason.rawValue))
    message.pointee.by = value.by.map(party)
    message.pointee.missed = value.missed ? 1 : 0
    return message
  }
}
