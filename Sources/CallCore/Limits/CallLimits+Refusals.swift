/// Refusals for a limit that an operator may have set: each names the one in force.
extension CallLimits {
  /// With the number of devices that an app allows its users, where that is smaller; 0: the app has no limit.
  func with(devicesPerUser: UInt32) -> CallLimits {
    guard devicesPerUser > 0, Int(devicesPerUser) < self.devicesPerUser else { return self }
    var limits = self
    limits.devicesPerUser = Int(devicesPerUser)
    return limits
  }

  public var tooManyLiveCalls: CallError {
    CallError(
      .tooManyLiveCalls, "At most \(Self.counted(liveCallsPerDevice, "live call")) on one device.")
  }

  public var tooManyCalls: CallError {
    CallError(
      .tooManyCalls,
      "At most \(Self.counted(callsPerPairPerMinute, "call")) a minute from one caller to one callee.",
      retryAfterMilliseconds: 60_000)
  }

  public var tooManyCallsToUser: CallError {
    CallError(
      .tooManyCalls, "The callee's devices do not confirm the ends of \(callsToUser) calls.",
      retryAfterMilliseconds: 60_000)
  }

  public var tooManyDevices: CallError {
    CallError(
      .tooManyDevices,
      "At most \(Self.counted(legsPerCall, "device")) of one user are attached or registered.")
  }

  /// For a registration without a token to ring by, where all that are registered have one.
  public var tooManyWakeableDevices: CallError {
    CallError(
      .tooManyDevices,
      "All \(devicesPerUser) registered devices of this user can be woken, and this one cannot.")
  }

  /// Callers give it in whole seconds.
  public var invalidRingTimeout: CallError {
    let shortest = (ringTimeoutMinimum.microseconds + 999_999) / 1_000_000
    let longest = ringTimeoutMaximum.microseconds / 1_000_000
    return CallError(.invalidRingTimeout, "The ring timeout is \(shortest) to \(longest) seconds.")
  }

  public var headersTooLarge: CallError {
    CallError(
      .headersTooLarge,
      "At most \(Self.counted(headersCount, "header")), \(headersBytes) bytes in all.")
  }

  public var descriptionTooLarge: CallError {
    CallError(.descriptionTooLarge, "A session description is at most \(descriptionBytes) bytes.")
  }

  public var pushDataTooLarge: CallError {
    CallError(.pushDataTooLarge, "The data for pushes are at most \(pushDataBytes) bytes.")
  }

  public var informationTooLarge: CallError {
    CallError(.informationTooLarge, "An information is at most \(informationBytes) bytes.")
  }

  public var tooManyMoves: CallError {
    CallError(
      .tooManyMoves, "A call is taken over at most \(Self.counted(movesPerCall, "time")).")
  }

  public var tooManySignals: CallError {
    CallError(
      .tooManySignals,
      "At most \(signalsWaiting) descriptions and candidates, \(signalBytesWaiting) bytes in all, "
        + "wait for one device.")
  }

  private static func counted(_ count: Int, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
  }
}
