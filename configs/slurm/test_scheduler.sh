#!/usr/bin/env bash
# A real one-node SLURM on this machine, for trying job scripts. Debian: apt-get install slurm-wlm munge; as root.
#
#   eval "$(configs/slurm/test_scheduler.sh start /tmp/slurm)"     sets SLURM_CONF; sinfo then answers
#   configs/slurm/test_scheduler.sh stop /tmp/slurm
#
# Two partitions: jobs of `high` preempt jobs of `low`, which get SIGTERM, have a minute, and are requeued.
set -euo pipefail
action=$1
folder=$(realpath -m "$2")
name=$(hostname -s)

start() {
  mkdir -p "$folder"/{state,spool,log} /run/munge
  chown munge: /run/munge
  pgrep -x munged >/dev/null || su munge -s /bin/sh -c "munged --force" >&2
  cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
JobRequeue=1
KillWait=30
MpiDefault=none
NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=low Nodes=$name Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 State=UP
PartitionName=high Nodes=$name PriorityTier=10 PreemptMode=OFF State=UP
CONF
  export SLURM_CONF=$folder/slurm.conf
  slurmctld >&2
  slurmd >&2
  for _ in $(seq 20); do
    if [[ $(sinfo -h -p low -o %t 2>/dev/null) == idle ]]; then break; fi
    sleep 0.5
  done
  sinfo >&2
  echo "export SLURM_CONF=$SLURM_CONF"
}

stop() {
  for daemon in slurmd slurmctld; do
    if [[ -f $folder/$daemon.pid ]]; then kill "$(cat "$folder/$daemon.pid")" || true; fi
  done
}

"$action"
