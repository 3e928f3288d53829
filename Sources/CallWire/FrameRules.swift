internal import CallCore

/// Checks form and size of a device's frame, in either encoding.
struct FrameRules {
  let limits: CallLimits

  /// - Returns: the frame, with its registration in canonical form, and with names that fit.
  func checked(_ frame: ClientFrame) throws(CallError) -> ClientFrame {
    try check(frame)
    switch frame.command {
    case .register(let request):
      return ClientFrame(
        id: frame.id, command: .register(try RegistrationRules.normalised(request)))
    case .attach(var request):
      request.deviceName = FieldRules.label(request.deviceName)
      request.client = FieldRules.label(request.client)
      return ClientFrame(id: frame.id, command: .attach(request))
    default: return frame
    }
  }

  private func check(_ frame: ClientFrame) throws(CallError) {
    guard frame.id <= FieldRules.numberMaximum else {
      throw CallError(.invalidField, "The id of a frame is at most 2^53 - 1.")
    }
    if case .ack(let items) = frame.command {
      try check(items)
    } else {
      guard frame.id > 0 else {
        throw CallError(.invalidField, "Give the frame an id greater than 0.")
      }
      try check(frame.command)
    }
  }

  private func check(_ command: ClientCommand) throws(CallError) {
    switch command {
    case .attach(let request): try check(request)
    // A registration is checked while it is brought into its canonical form.
    case .detach, .ack, .register, .ping, .calls: break
    case .history(let body):
      guard body.isValid else {
        throw CallError(
          .invalidField, "The limit is at most \(HistoryCommand.limits.upperBound) entries.")
      }
    case .rules(.read): break
    // Whether they name the user itself is checked by its shard.
    case .rules(.write(let rules)): try rules.check()
    case .renew(let token): try check(token: token)
    case .unregister(let device):
      if let device { try FieldRules.checkDeviceID(device.text) }
    case .place(let call, let request):
      try check(call)
      try check(description: request.setup.description)
      try check(request.setup.headers)
      guard request.setup.pushData.utf8.count <= limits.pushDataBytes else {
        throw limits.pushDataTooLarge
      }
      try check(noNUL: request.setup.pushData, "pushData")
    case .call(let call, let verb):
      try check(call)
      switch verb {
      case .answer(let description): try check(description: description)
      case .pull(let request):
        try FieldRules.checkDeviceID(request.from.text)
        try check(description: request.description)
      case .transfer(let request): try check(request)
      case .signal(.information, let body): try check(information: body)
      // It takes the place of the one in `place` or `answer` after a move, so it may be as long.
      case .signal(.description, let body): try check(description: body)
      case .signal(_, let body): try check(signal: body)
      default: break
      }
    }
  }

  private func check(_ call: CallAddress) throws(CallError) {
    guard call.callee.isEmpty || IdentifierRules.isUser(call.callee) else {
      throw CallError(.invalidCallee)
    }
  }

  private func check(_ request: TransferRequest) throws(CallError) {
    guard IdentifierRules.isUser(request.to) else { throw CallError(.invalidCallee) }
    if let device = request.device { try FieldRules.checkDeviceID(device.text) }
    guard let consulted = request.consulted else { return }
    guard request.device != nil else {
      throw CallError(.invalidField, "transfer.consulted needs transfer.device.")
    }
    try check(CallAddress(callee: consulted.callee, call: consulted.call))
  }

  private func check(_ items: [AckItem]) throws(CallError) {
    guard (1...FieldRules.ackItemsMaximum).contains(items.count) else {
      throw CallError(.invalidField, "An ack names 1 to \(FieldRules.ackItemsMaximum) deliveries.")
    }
    for item in items { try check(item.call) }
  }

  private func check(_ request: AttachRequest) throws(CallError) {
    try check(token: request.token)
    if !request.device.isEmpty { try FieldRules.checkDeviceID(request.device) }
  }

  private func check(token: String) throws(CallError) {
    guard token.utf8.count <= FieldRules.bearerTokenBytesMaximum, FieldRules.isPrintable(token)
    else { throw CallError(.notAccepted) }
  }

  private func check(description: String) throws(CallError) {
    guard description.utf8.count <= limits.descriptionBytes else {
      throw limits.descriptionTooLarge
    }
    try check(noNUL: description, "description")
  }

  private func check(signal body: String) throws(CallError) {
    guard body.utf8.count <= limits.signalBytes else {
      throw CallError(
        .descriptionTooLarge, "A candidate is at most \(limits.signalBytes) bytes.")
    }
    try check(noNUL: body, "body")
  }

  private func check(information body: String) throws(CallError) {
    guard body.utf8.count <= limits.informationBytes else { throw limits.informationTooLarge }
    try check(noNUL: body, "body")
  }

  private func check(_ headers: [CustomHeader]) throws(CallError) {
    guard headers.count <= limits.headersCount else { throw limits.headersTooLarge }
    var bytes = 0
    for header in headers {
      bytes += header.name.utf8.count + header.value.utf8.count
      guard bytes <= limits.headersBytes else { throw limits.headersTooLarge }
      guard !header.name.isEmpty, FieldRules.isPrintable(header.name) else {
        throw CallError(.invalidField, "A header's name is printable text, and not empty.")
      }
      try check(noNUL: header.value, "headers.value")
    }
  }

  private func check(noNUL text: String, _ field: StaticString) throws(CallError) {
    guard FieldRules.hasNoNUL(text) else {
      throw CallError(.invalidField, "\(field) holds a NUL character.")
    }
  }
}
