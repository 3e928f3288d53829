internal import CallBus
internal import CallClient
internal import CallCoordinator
internal import CallCore
internal import CallJudge
internal import CallPush
internal import CallWire

extension Simulation {
  func prepare(_ push: SimPush) {
    push.people.begin(workload.allDevices)
    push.people.signOut = { [unowned self] in workload.signOut($0) }
    for gateway in push.gateways { gateway.start() }
    observe(push.provider)
    push.phones.onDelivery = { [unowned self] in coverage.delivered($1.job, to: $0) }
    push.phones.onEvent = { [unowned self] in note(.push($0)) }
    nats.observers.written.append { [unowned self] bucket, entry in
      guard bucket == SimOptions.tokenBucket else { return }
      let owner = entry.value.flatMap { try? ClusterCodec.tokenOwner($0) }
      let who = owner.map { Who($0.user.user, $0.device.text) }
      world.note("store", "token \(entry.key.prefix(8)) is \(who.map(\.description) ?? "nobody")'s")
      let fingerprint = SimOptions.fingerprint(tokenKey: entry.key)
      coverage.claimed(fingerprint, who)
      note(.push(.claim(fingerprint: fingerprint, who)))
    }
    observeUnconfirmed()
    nats.observers.raced.append { [unowned self] bucket, key in
      guard bucket == SimOptions.tokenBucket else { return }
      note(.push(.raced(fingerprint: SimOptions.fingerprint(tokenKey: key))))
    }
    nats.observers.jobAdded.append { [unowned self] node, bytes in
      guard let job = try? ClusterCodec.pushJob(bytes) else {
        return world.stop("the work queue takes what cannot be read")
      }
      world.note("queue", call: job.call, "\(job.purpose.name) for \(Who(job)), by \(node.name)")
      world.count("queue.jobs")
      note(.push(.job(job, lane: job.token.lane, decided: node.timers.trueTime(job.decidedAt))))
    }
    nats.observers.jobDone.append { [unowned self] bytes in
      if let job = try? ClusterCodec.pushJob(bytes) { note(.push(.done(job))) }
    }
    push.onTrouble = { [unowned self] lane, until in
      note(.push(.trouble(lane: lane?.rawValue, until: until)))
    }
  }

  /// Registrations that their shards may not count on, though the store has them.
  private func observeUnconfirmed() {
    nats.observers.put.append { [unowned self] put in
      guard put.bucket == SimOptions.registrationBucket, !put.isRemoval else { return }
      // The later owner may have read the entry that this write replaces.
      if invariants.isFormerOwner(put.node, ofRegistration: put.key) { unconfirmed(put.key) }
    }
    nats.observers.unconfirmed.append { [unowned self] node, bucket, key in
      guard bucket == SimOptions.registrationBucket else { return }
      // A later owner has read the entries that existed when it took over.
      if !invariants.isFormerOwner(node, ofRegistration: key) { unconfirmed(key) }
    }
  }

  private func unconfirmed(_ key: String) {
    guard let who = SimOptions.who(registrationKey: key) else { return }
    world.note("store", "\(who)'s registration is of unknown fate to its shard")
    note(.push(.unconfirmed(who)))
  }

  private func observe(_ provider: SimProvider) {
    provider.onGone = { [unowned self] in note(.push(.gone(fingerprint: $0.fingerprint))) }
    provider.onSilence = { [unowned self] in note(.push(.silence($0))) }
    provider.onSent = { [unowned self, unowned provider] push, lane, time in
      world.note(
        "provider", call: push.job.call, "gets \(push.job.purpose.name) for \(Who(push.job))")
      coverage.pushed(push.job, isDead: provider.mood(lane).isDead)
      note(.push(.sent(push.job, process: push.process, gatewayTime: time)))
    }
  }

  func noteForPush(_ command: Command) {
    let who = Who(command.user.user, command.device.text)
    switch command.body {
    case .register(let request): note(.push(.wants(who, request)))
    case .pushReport(let report):
      world.note(
        "shard", call: report.call, "hears of \(who): \(report.purpose.name) \(report.outcome)")
      coverage.reported(who, report, checker.storedRegistration(of: who))
      note(.push(.report(who, report)))
    default: break
    }
  }
}
